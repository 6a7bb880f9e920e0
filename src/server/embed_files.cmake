# Writes OUTPUT from embedded_files.cc.in, page.html and openapi.json in SOURCE_DIR; the document gets VERSION.
cmake_minimum_required(VERSION 3.25)
file(READ ${SOURCE_DIR}/page.html PAGE_HTML)
file(READ ${SOURCE_DIR}/openapi.json OPENAPI_JSON)
string(REPLACE "@VERSION@" "${VERSION}" OPENAPI_JSON "${OPENAPI_JSON}")
configure_file(${SOURCE_DIR}/embedded_files.cc.in ${OUTPUT} @ONLY)
