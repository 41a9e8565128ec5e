"""register: what vLLM is told of glyd.

  * the quantization method `glyd`, and the load format `glyd`
  * EngineArgs.create_model_config is wrapped: a model that is a save is served with both, without
    being asked; options are read before anything is loaded, so that a slip stops the start
SPDX-License-Identifier: Apache-2.0
"""
import functools
import logging
import re

VERSIONS = (0, 24), (0, 33)  # the first that is supported, and the first that is not
TESTED = "0.26.0"

_done = False


def version_refusal(version):
    """Why this version of vLLM is not supported, or None."""
    found = re.match(r"(\d+)\.(\d+)", version)
    first, last = (".".join(map(str, v)) for v in VERSIONS)
    if found and VERSIONS[0] <= tuple(map(int, found.groups())) < VERSIONS[1]:
        return None
    return (f"glyd supports vLLM from {first} to before {last} (tested: {TESTED}); this is "
            f"{version}. Install another vLLM, or another version of glyd")


def register():
    """Called by vLLM in each of its processes, and again in the same one."""
    global _done
    if _done:
        return
    import vllm
    refusal = version_refusal(vllm.__version__)
    _share_log()
    try:
        _register(refusal)
    except ImportError as error:
        # vLLM logs what a plugin raises and goes on without it: say what that means.
        logging.getLogger("vllm.glyd").error("glyd cannot register with vLLM %s, so --quantization "
                                             "glyd is not known: %s", vllm.__version__, error)
        raise
    _done = True


def _share_log():
    """What glyd's operators say (that a product is left to cuBLAS, for one) belongs to vLLM's log."""
    ours, theirs = logging.getLogger("glyd"), logging.getLogger("vllm")
    if theirs.handlers and not ours.handlers:
        ours.handlers = list(theirs.handlers)
        ours.setLevel(theirs.level)
        ours.propagate = False


def _register(refusal):
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.layers.quantization import register_quantization_config

    from .config import GlydConfig
    GlydConfig.refusal = refusal
    register_quantization_config(GlydConfig.get_name())(GlydConfig)
    if not refusal:
        from vllm.model_executor.model_loader import register_model_loader

        from .loader import NAME, GlydModelLoader
        register_model_loader(NAME)(GlydModelLoader)
    _wrap(EngineArgs, refusal)


def _wrap(engine_args, refusal):
    original = engine_args.create_model_config
    if hasattr(original, "glyd"):
        return

    @functools.wraps(original)
    def create_model_config(self, *args, **kwargs):
        prepare(self, refusal)
        return original(self, *args, **kwargs)

    create_model_config.glyd = True
    engine_args.create_model_config = create_model_config


def prepare(args, refusal=None):
    """Fit EngineArgs to the model: a save chooses glyd, glyd chooses its loader. Errors: ValueError
    (options, a save with another quantization), GlydError (a manifest that is not right)."""
    from ..save import Save
    from . import options, saves
    from .loader import NAME
    folder = saves.folder_of(args.model, args.revision)
    if folder:
        Save(folder)
        if args.quantization not in (None, "glyd"):
            raise ValueError(f"{args.model} is a glyd save: it cannot be served with "
                             f"--quantization {args.quantization}")
        args.quantization = "glyd"
    if args.quantization != "glyd":
        return
    if refusal:
        raise RuntimeError(refusal)
    options.read(args.additional_config)
    if args.load_format in ("auto", "hf", "safetensors"):
        args.load_format = NAME
    elif folder and args.load_format not in (NAME, "dummy"):
        raise ValueError(f"{args.model} is a glyd save: it cannot be read with --load-format "
                         f"{args.load_format}")
