# glyd_join(FILE OUT): FILE with each line part @NAME@ replaced by the file NAME beside it, as OUT.
function(glyd_join file out)
    get_filename_component(folder ${file} DIRECTORY)
    file(READ ${file} text)
    string(REGEX MATCHALL "@[a-z]+\\.[a-z]+@" names "${text}")
    foreach(name ${names})
        string(REPLACE "@" "" part ${name})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file} ${folder}/${part})
        file(READ ${folder}/${part} content)
        string(REPLACE "${name}" "${content}" text "${text}")
    endforeach()
    file(CONFIGURE OUTPUT ${out} CONTENT "@text@" @ONLY)
endfunction()

# glyd_embed(TARGET FILE SYMBOL): the bytes of FILE as `const unsigned char SYMBOL[]` and
# `const size_t SYMBOL_bytes` in TARGET, declared in src/server/embedded.h.
function(glyd_embed target file symbol)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    set(source ${CMAKE_BINARY_DIR}/embedded/${symbol}.c)
    file(CONFIGURE OUTPUT ${source} CONTENT
        "#include \"server/embedded.h\"\nconst unsigned char @symbol@[] = {\n@bytes@};\nconst size_t @symbol@_bytes = sizeof @symbol@;\n"
        @ONLY)
    target_sources(${target} PRIVATE ${source})
endfunction()
