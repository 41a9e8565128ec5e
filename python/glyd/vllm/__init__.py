"""The vLLM plugin: `vllm serve MODEL --quantization glyd`, or a save by its folder alone.

vLLM finds `register` by the entry point `vllm.general_plugins` and calls it in each of its
processes, more than once. docs/VLLM.md is the user's page.

  plugin.py     register: what vLLM is told, and which versions of it are supported
  options.py    the plugin's options, from --additional-config and the environment
  config.py     GlydConfig: which layers are packed
  experts.py    the experts of a mixture, which stay bf16
  methods.py    packed and plain layers: how vLLM creates, loads and applies them
  pack.py       a layer that was loaded becomes a packed one
  counting.py   how many elements of a layer the checkpoint gave
  loader.py     the loader: saves, and checkpoints that lack something
  saves.py      where a save is, and its tensors
SPDX-License-Identifier: Apache-2.0
"""


def register():
    """Tell vLLM of glyd. Light: no GPU is touched, no library loaded."""
    from . import plugin
    plugin.register()
