# VW's source distribution, fetched by package name with pip, checked by sha256 and kept in the user's cache.
# Sets VW_VERSION, VW_SHA256, VW_CACHE_DIR and VW_SOURCE_DIR. Also runs as a script, to ask where the source is:
#   cmake -P cmake/vw_source.cmake

# The version is that of the Python half, our dependency. The hash is that of its source distribution.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../pyproject.toml" pin REGEX "\"vowpalwabbit==")
string(REGEX MATCH "vowpalwabbit==([0-9.]+)" pin "${pin}")
set(VW_VERSION ${CMAKE_MATCH_1})
set(VW_SHA256 ff90d52858b73b8264ecf9259e436dccf1acff651c1bebd34042fcfb8bc886ec)

# VW_OPO_CMAB_CACHE, else the platform's usual place.
if(DEFINED ENV{VW_OPO_CMAB_CACHE})
  set(VW_CACHE_DIR "$ENV{VW_OPO_CMAB_CACHE}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(VW_CACHE_DIR "$ENV{XDG_CACHE_HOME}/vw-opo-cmab")
elseif(WIN32)
  set(VW_CACHE_DIR "$ENV{LOCALAPPDATA}/vw-opo-cmab")
elseif(APPLE)
  set(VW_CACHE_DIR "$ENV{HOME}/Library/Caches/vw-opo-cmab")
else()
  set(VW_CACHE_DIR "$ENV{HOME}/.cache/vw-opo-cmab")
endif()
cmake_path(ABSOLUTE_PATH VW_CACHE_DIR NORMALIZE)
file(MAKE_DIRECTORY "${VW_CACHE_DIR}")

# Takes a lock that is given back when the calling function returns or the process dies, and says so if it must wait.
macro(vw_lock name doing)
  file(LOCK "${VW_CACHE_DIR}/${name}.lock" GUARD FUNCTION TIMEOUT 0 RESULT_VARIABLE lock_result)
  if(lock_result)
    message(STATUS "Another process is ${doing}: waiting for it")
    file(LOCK "${VW_CACHE_DIR}/${name}.lock" GUARD FUNCTION TIMEOUT 7200)
  endif()
endmacro()

function(vw_fetch_source)
  set(source "${VW_CACHE_DIR}/vowpalwabbit-${VW_VERSION}")
  set(VW_SOURCE_DIR "${source}" PARENT_SCOPE)
  vw_lock(source "fetching VW's source")
  if(EXISTS "${source}")
    return()
  endif()
  if(NOT Python_EXECUTABLE)
    find_program(Python_EXECUTABLE NAMES python3 python REQUIRED)
  endif()
  message(STATUS "Fetching the source of vowpalwabbit ${VW_VERSION} with pip (36 MB, once per machine)")
  set(download "${VW_CACHE_DIR}/download")
  file(REMOVE_RECURSE "${download}")
  file(WRITE "${download}/requirements.txt" "vowpalwabbit==${VW_VERSION} --hash=sha256:${VW_SHA256}\n")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m pip download --quiet --disable-pip-version-check --no-deps
            --no-binary vowpalwabbit --require-hashes -r "${download}/requirements.txt" --dest "${download}"
    RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR
      "Could not fetch the source of vowpalwabbit ${VW_VERSION}: pip's message is above.\n"
      "It is needed once per machine, and comes from the package index that pip is set up for. With no network here, run\n"
      "  pip download --no-deps --no-binary vowpalwabbit vowpalwabbit==${VW_VERSION}\n"
      "where there is one, unpack the file, and build with\n"
      "  pip install . -C cmake.define.VW_SOURCE_DIR=<the unpacked directory>\n")
  endif()
  file(ARCHIVE_EXTRACT INPUT "${download}/vowpalwabbit-${VW_VERSION}.tar.gz" DESTINATION "${download}")
  file(RENAME "${download}/vowpalwabbit-${VW_VERSION}" "${source}")
  file(REMOVE_RECURSE "${download}")
endfunction()

if(NOT VW_SOURCE_DIR)
  vw_fetch_source()
endif()
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "${VW_SOURCE_DIR}")
endif()
