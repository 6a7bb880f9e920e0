# DECANT_CUDA: whether the CUDA backend is part of the build. The backend itself is not written yet, so AUTO leaves it
# out with a notice and ON refuses rather than build an engine that lacks what was asked for.
if(NOT DECANT_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DECANT_CUDA is '${DECANT_CUDA}'; allowed: AUTO, ON, OFF")
endif()
if(DECANT_CUDA STREQUAL "ON")
  message(FATAL_ERROR "DECANT_CUDA=ON: this version has no CUDA backend yet; use AUTO or OFF")
endif()
message(STATUS "CUDA backend: left out")
