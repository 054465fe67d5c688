"""Scalable checkpoint/restart for MPI programs in Python.

A program uses it like this, on all ranks:

    import scr

    scr.config("SCR_CHECKPOINT_INTERVAL=10")
    scr.init()

    state = None
    while state is None and scr.have_restart():
        try:
            with scr.restart() as ckpt:
                with open(ckpt.route(f"{ckpt.name}/rank_{scr.rank()}"), "rb") as f:
                    state = f.read()
        except scr.Error:
            state = None            # not readable on some rank: the next older one

    for step in range(first(state), last):
        ...
        if scr.need_checkpoint():
            with scr.output(f"ckpt.{step}") as ckpt:
                with open(ckpt.route(f"{ckpt.name}/rank_{scr.rank()}"), "wb") as f:
                    f.write(state)
        if scr.should_exit():
            break

    scr.finalize()

Each function does what that of the same name in scr.h does, and raises Error
where that one returns an error. All but route_file are collective. Nothing but
libscr.so is needed; a program may use mpi4py, of the MPI that libscr.so is for.

libscr.so is taken from $SCR_LIB, a file or the directory it is in; else from the
directory of this file or the one above; else from where the system looks.
"""

import ctypes
import os
import sys

__all__ = [
    "FLAG_NONE", "FLAG_CHECKPOINT", "FLAG_OUTPUT", "MAX_FILENAME", "Error",
    "init", "finalize", "get_version", "config", "route_file",
    "have_restart", "start_restart", "complete_restart", "restart", "Restart",
    "need_checkpoint", "start_output", "complete_output", "output", "Output",
    "start_checkpoint", "complete_checkpoint",
    "should_exit", "current", "drop", "delete", "rank", "size", "library",
]

SUCCESS = 0
MAX_FILENAME = 1024

# What a dataset is for; combine with |.
FLAG_NONE = 0
FLAG_CHECKPOINT = 1  # the program can restart from it
FLAG_OUTPUT = 2  # wanted in the prefix directory in any case


class Error(Exception):
    """A call failed; a line on stderr says why, on the rank that met the cause.

    A collective call fails on all ranks or on none, so that all can catch it.
    """


# ------------------------------------------------------------------ the library


def _path():
    """Returns what to open as libscr.so."""
    name = "libscr.so"
    asked = os.environ.get("SCR_LIB")
    if asked:
        return os.path.join(asked, name) if os.path.isdir(asked) else os.path.abspath(asked)
    here = os.path.dirname(os.path.abspath(__file__))
    for directory in (here, os.path.dirname(here)):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            return path
    return name


def _open_mpi(lib):
    """Returns the address of Open MPI's world, None with MPICH and what shares its binary interface."""
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(lib, "ompi_mpi_comm_world"))
    except ValueError:
        return None


def _mpi_comm(lib):
    """Returns the type of communicators, which in Open MPI are addresses, in MPICH numbers."""
    return ctypes.c_void_p if _open_mpi(lib) else ctypes.c_int


def _load():
    path = _path()
    try:
        # MPIs have parts of their own that look for the MPI among global symbols.
        lib = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError as e:
        raise ImportError(f"{e} (SCR_LIB can say where libscr.so is)") from e
    text, number, pointer = ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
    for name, arguments in {
        "SCR_Init": [], "SCR_Init_comm": [_mpi_comm(lib)], "SCR_Finalize": [], "SCR_Get_version": [], "SCR_Config": [text],
        "SCR_Route_file": [text, text],
        "SCR_Have_restart": [pointer, text], "SCR_Start_restart": [text], "SCR_Complete_restart": [number],
        "SCR_Need_checkpoint": [pointer], "SCR_Start_output": [text, number], "SCR_Complete_output": [number],
        "SCR_Start_checkpoint": [], "SCR_Complete_checkpoint": [number],
        "SCR_Should_exit": [pointer], "SCR_Current": [text], "SCR_Drop": [text], "SCR_Delete": [text],
    }.items():
        try:
            function = getattr(lib, name)
        except AttributeError as e:
            raise ImportError(f"{path} is not a libscr.so: {e}") from e
        function.argtypes = arguments
    lib.SCR_Get_version.restype = ctypes.c_char_p
    lib.SCR_Config.restype = ctypes.c_void_p  # not c_char_p: it has to be freed
    return lib


_lib = _load()


def library():
    """Returns libscr.so, as ctypes has it; functions of its MPI are found in it."""
    return _lib


def _bytes(text):
    """Returns a str, bytes or path as the library wants it."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError(f"there is a NUL in {text!r}")
    return data


def _check(code, call):
    if code != SUCCESS:
        raise Error(f"{call} failed (a line on stderr says why)")


def _ask(function):
    flag = ctypes.c_int()
    _check(function(ctypes.byref(flag)), function.__name__)
    return flag.value != 0


# -------------------------------------------------------------------------- MPI


class _MPI:
    """The little of libscr.so's own MPI that a program without mpi4py needs."""

    ours = False  # begun here, and so to be ended here
    place = None  # rank and size in the job, where that is not the whole world

    def __init__(self, lib):
        self.lib = lib
        self.world = lib.SCR_Init_comm.argtypes[0](_open_mpi(lib) or 0x44000000)

    def call(self, name, *arguments):
        if getattr(self.lib, name)(*arguments) != 0:
            raise Error(f"{name} failed")

    def number(self, name, *arguments):
        """Calls a function that stores an int through its last argument."""
        value = ctypes.c_int()
        self.call(name, *arguments, ctypes.byref(value))
        return value.value

    def begin(self):
        if self.number("MPI_Initialized"):
            return
        theirs = sys.modules.get("mpi4py.MPI")
        if theirs is not None and theirs.Is_initialized():
            raise Error("mpi4py is for another MPI than libscr.so: " + theirs.Get_library_version().split("\n")[0])
        self.call("MPI_Init", None, None)
        self.ours = True

    def end(self):
        if self.ours:
            self.ours = False
            self.call("MPI_Finalize")


_mpi = _MPI(_lib)


def rank():
    """Returns the rank of the caller in the job. After MPI_Init, by whomever."""
    return _mpi.place[0] if _mpi.place else _mpi.number("MPI_Comm_rank", _mpi.world)


def size():
    """Returns the number of ranks of the job. After MPI_Init, by whomever."""
    return _mpi.place[1] if _mpi.place else _mpi.number("MPI_Comm_size", _mpi.world)


# ---------------------------------------------------------------- begin and end


def init(mpi=True, comm=None):
    """Starts the library.

    Unless mpi is false, MPI is initialized if it has not been, and finalize then
    ends it as well. A job that is not the whole world is the ranks of comm, a
    communicator of mpi4py's.
    """
    if mpi:
        _mpi.begin()
    if comm is None:
        _check(_lib.SCR_Init(), "SCR_Init")
        return
    address = sys.modules["mpi4py.MPI"]._addressof(comm)
    handle = type(_mpi.world).from_address(address)
    _check(_lib.SCR_Init_comm(handle), "SCR_Init_comm")
    _mpi.place = comm.Get_rank(), comm.Get_size()


def finalize():
    """Stops the library, and MPI if init has begun it; also if there is an Error."""
    try:
        _check(_lib.SCR_Finalize(), "SCR_Finalize")
    finally:
        _mpi.place = None
        _mpi.end()


def get_version():
    """Returns the version of the library, for instance "v3.1.0"."""
    return _lib.SCR_Get_version().decode()


def config(text):
    """Sets or asks for a parameter.

    Before init, "NAME=VALUE" sets one for this run, and "NAME=" takes that back.
    "NAME" asks for its value, which is returned, or None if it has none.
    """
    address = _lib.SCR_Config(_bytes(text))
    if address is None:
        return None
    try:
        return os.fsdecode(ctypes.string_at(address))
    finally:
        _free(address)


_free = ctypes.CDLL(None).free
_free.argtypes, _free.restype = [ctypes.c_void_p], None


# -------------------------------------------------------------------- any phase


def route_file(name):
    """Returns the path under which to open a file. Not collective."""
    path = ctypes.create_string_buffer(MAX_FILENAME)
    _check(_lib.SCR_Route_file(_bytes(name), path), "SCR_Route_file")
    return os.fsdecode(path.value)


class _Phase:
    """What there is between a start and its complete."""

    name = None  # of the dataset
    valid = True  # set it to False if this rank's files are no good

    def route(self, name):
        """Returns the path under which to open a file."""
        return route_file(name)

    def _leave(self, error, complete):
        """Ends the phase on all ranks, whichever has met an error.

        All ranks see the same: an Error, on the one that met something from it.
        What is not an ordinary exception, such as KeyboardInterrupt, goes on.
        """
        try:
            complete(self.valid and error is None)
        except Error as e:
            if error is None:
                raise
            if isinstance(error, Exception):
                raise e from error
        return False


# ---------------------------------------------------------------------- restart


def have_restart():
    """Returns the name of the checkpoint to restart from, None if there is none."""
    flag, name = ctypes.c_int(), ctypes.create_string_buffer(MAX_FILENAME)
    _check(_lib.SCR_Have_restart(ctypes.byref(flag), name), "SCR_Have_restart")
    return os.fsdecode(name.value) if flag.value else None


def start_restart():
    """Begins to read the checkpoint that have_restart has named, and returns its name."""
    name = ctypes.create_string_buffer(MAX_FILENAME)
    _check(_lib.SCR_Start_restart(name), "SCR_Start_restart")
    return os.fsdecode(name.value)


def complete_restart(valid=True):
    """Ends reading. If valid is false on any rank, all raise Error, and have_restart names the one before."""
    _check(_lib.SCR_Complete_restart(bool(valid)), "SCR_Complete_restart")


class Restart(_Phase):
    """A restart from start to completion; see restart."""

    def __enter__(self):
        self.name = start_restart()
        return self

    def __exit__(self, kind, error, traceback):
        return self._leave(error, complete_restart)


def restart():
    """Reads the checkpoint that have_restart has named, in a with statement.

    An exception in its block, on any rank, makes the checkpoint one that cannot
    be used; it raises Error on all ranks.
    """
    return Restart()


# ---------------------------------------------------------- checkpoints, output


def need_checkpoint():
    """Returns whether it is time for a checkpoint."""
    return _ask(_lib.SCR_Need_checkpoint)


def start_output(name=None, flags=FLAG_CHECKPOINT):
    """Begins to write a dataset; without a name, the library makes one."""
    _check(_lib.SCR_Start_output(None if name is None else _bytes(name), flags), "SCR_Start_output")


def complete_output(valid=True):
    """Ends writing. If valid is false on any rank, the dataset is dropped and all raise Error."""
    _check(_lib.SCR_Complete_output(bool(valid)), "SCR_Complete_output")


class Output(_Phase):
    """A dataset being written, from start to completion; see output."""

    def __init__(self, name, flags):
        self.name, self.flags = name, flags

    def __enter__(self):
        start_output(self.name, self.flags)
        return self

    def __exit__(self, kind, error, traceback):
        return self._leave(error, complete_output)


def output(name=None, flags=FLAG_CHECKPOINT):
    """Writes a dataset, in a with statement.

    An exception in its block, on any rank, drops the dataset; it raises Error on
    all ranks.
    """
    return Output(name, flags)


def start_checkpoint():
    """Begins to write a checkpoint with a name made by the library."""
    _check(_lib.SCR_Start_checkpoint(), "SCR_Start_checkpoint")


def complete_checkpoint(valid=True):
    """Ends what start_checkpoint has begun."""
    _check(_lib.SCR_Complete_checkpoint(bool(valid)), "SCR_Complete_checkpoint")


# ------------------------------------------------------------------------ other


def should_exit():
    """Returns whether the program should stop now."""
    return _ask(_lib.SCR_Should_exit)


def current(name):
    """Makes the dataset of a name in the prefix directory the one to restart from."""
    _check(_lib.SCR_Current(_bytes(name)), "SCR_Current")


def drop(name):
    """Takes the dataset of a name out of the index of the prefix directory."""
    _check(_lib.SCR_Drop(_bytes(name)), "SCR_Drop")


def delete(name):
    """Removes the dataset of a name from the prefix directory, files included."""
    _check(_lib.SCR_Delete(_bytes(name)), "SCR_Delete")
