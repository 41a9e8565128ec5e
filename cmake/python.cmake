# What the Python package holds: of libglyd the codec and the saves, and libglyd_gpu where nvcc is.
# scikit-build-core builds the target `python` and installs the component `python` into the wheel.
add_custom_target(python DEPENDS glyd)
set(PYTHON_LIBRARIES glyd)
if(TARGET glyd_gpu)
    add_dependencies(python glyd_gpu)
    list(APPEND PYTHON_LIBRARIES glyd_gpu)
endif()
# A function that belongs to a part that is not here must not wait for its first call to be missed.
target_link_options(glyd PRIVATE -Wl,--no-undefined)
install(TARGETS ${PYTHON_LIBRARIES} LIBRARY DESTINATION glyd/lib COMPONENT python)
