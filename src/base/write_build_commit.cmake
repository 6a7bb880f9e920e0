# Run at every build: writes OUTPUT from INPUT with the commit of SOURCE_DIR, but only if it changed.
execute_process(
  COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
  OUTPUT_VARIABLE DECANT_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE result ERROR_QUIET)
if(NOT result EQUAL 0)
  set(DECANT_COMMIT "unknown")
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)
