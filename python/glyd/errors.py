"""Exceptions: one for each glyd_status, under GlydError and the built-in exception it resembles.

SPDX-License-Identifier: Apache-2.0
"""


class GlydError(Exception):
    """What a glyd library refused or failed at. `status` is the glyd_status (include/glyd/status.h)."""

    status = 0


class ArgumentError(GlydError, ValueError):
    """An argument is wrong."""

    status = 10


class UnsupportedError(GlydError, NotImplementedError):
    """What was asked for is not supported."""

    status = 11


class LimitError(GlydError, ValueError):
    """Over a limit."""

    status = 12


class CancelledError(GlydError):
    """The call was cancelled."""

    status = 13


class ExistsError(GlydError, FileExistsError):
    """What should be written is there already."""

    status = 14


class BusyError(GlydError):
    """Try again later."""

    status = 15


class CorruptError(GlydError, ValueError):
    """The data is damaged."""

    status = 20


class FormatError(GlydError, ValueError):
    """The data is not in the format it should be in."""

    status = 21


class MismatchError(GlydError, ValueError):
    """The data does not match its checksum."""

    status = 22


class NoMemoryError(GlydError, MemoryError):
    """No memory left, on the host or on the GPU."""

    status = 30


class InputOutputError(GlydError, OSError):
    """Reading or writing failed."""

    status = 31


class NotFoundError(GlydError, FileNotFoundError):
    """A file, a folder or a library is not there."""

    status = 32


class NoSpaceError(GlydError, OSError):
    """No space left on the disk."""

    status = 33


class DeviceError(GlydError, RuntimeError):
    """The GPU or its driver failed."""

    status = 40


class NoDeviceError(GlydError, RuntimeError):
    """There is no GPU that the library has kernels for."""

    status = 41


BY_STATUS = {kind.status: kind for kind in GlydError.__subclasses__()}


def of_status(status, text):
    """The exception for a status; a status that this package does not know is a GlydError."""
    error = BY_STATUS.get(status, GlydError)(text)
    error.status = status
    return error
