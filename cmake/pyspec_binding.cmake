# The cffi module, generated from the C header, and what is installed.

file(GLOB headers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/csrc/include/*.h")

execute_process(COMMAND "${Python_EXECUTABLE}" -c "import cffi" RESULT_VARIABLE no_cffi OUTPUT_QUIET ERROR_QUIET)
if(Python_Interpreter_FOUND AND no_cffi EQUAL 0)
    set(generator "${CMAKE_CURRENT_SOURCE_DIR}/tools/generate_binding.py")
    set(binding "${PYSPEC_NATIVE_DIR}/_binding.py")
    add_custom_command(
        OUTPUT "${binding}"
        COMMAND "${Python_EXECUTABLE}" "${generator}" "${CMAKE_CURRENT_SOURCE_DIR}/csrc/include/pyspec.h" "${binding}"
        DEPENDS ${headers} "${generator}"
        VERBATIM)
    add_custom_target(pyspec_binding ALL DEPENDS "${binding}")
elseif(SKBUILD)
    message(FATAL_ERROR "pyspec: ${Python_EXECUTABLE} has no cffi, which generates the Python binding.")
else()
    message(STATUS "pyspec: no Python with cffi found, the Python binding is not built")
endif()

if(SKBUILD)
    install(TARGETS pyspec LIBRARY DESTINATION pyspec/_native)
    install(FILES ${headers} DESTINATION pyspec/_native/include)
    install(FILES "${PYSPEC_NATIVE_DIR}/build_info.json" "${binding}" DESTINATION pyspec/_native)
    install(FILES models/manifest.toml DESTINATION pyspec/models)
    install(FILES "${PYSPEC_GGML_SOURCE}/LICENSE" DESTINATION "${SKBUILD_METADATA_DIR}/licenses" RENAME LICENSE.ggml)
else()
    include(GNUInstallDirs)
    install(TARGETS pyspec LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
    install(FILES ${headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/pyspec")
    install(FILES "${PYSPEC_GGML_SOURCE}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/pyspec" RENAME LICENSE.ggml)
endif()
