"""python -m glyd pack|verify|fit: the same as the program glyd's commands, from a wheel.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the input is corrupt or not what it says.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import sys
from ctypes import byref

from . import _lib, errors
from .codec import _layout_number, report_dict, verify
from .plan import fit


def _pack(options):
    number = _layout_number(options.layout)
    save_options = _lib.SaveOptions(layout=number, any_model=1)
    report = _lib.SaveReport()
    _lib.call(_lib.cpu().glyd_save_pack, os.fsencode(options.model), os.fsencode(options.out),
              byref(save_options), byref(report))
    done = report_dict(report)
    print("{n_tensors} tensors, {n_packed} of them packed ({layout}): {bytes_checkpoint} bytes in, "
          "{bytes_save} bytes out, {bits:.3f} bits a weight".format(
              bits=8 * done["bytes_save"] / max(1, done["n_weights"]), **done))


def _verify(options):
    done = verify(options.save)
    print(f"{done['n_tensors']} tensors and {done['n_files']} files, all as they were")


def _fit(options):
    print(fit(options.model, options.gpu, options.context))


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m glyd", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    pack = commands.add_parser("pack", help="pack a bf16 model folder into a save")
    pack.add_argument("model")
    pack.add_argument("out")
    pack.add_argument("--layout", choices=("auto", "mma", "mma12"), default="auto")
    pack.set_defaults(run=_pack)
    check = commands.add_parser("verify", help="compare every checksum of a save")
    check.add_argument("save")
    check.set_defaults(run=_verify)
    plan = commands.add_parser("fit", help="whether a model fits the memory of a GPU")
    plan.add_argument("model")
    plan.add_argument("--gpu", default="24GB")
    plan.add_argument("--context", type=int, default=8192)
    plan.set_defaults(run=_fit)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except errors.GlydError as error:
        print(f"glyd: {error}", file=sys.stderr)
        return 3 if error.status in (20, 21, 22) else 2 if error.status == 10 else 1
    except KeyboardInterrupt:
        print("glyd: cancelled", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
