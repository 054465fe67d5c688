Event.POST_CRS_POST_MPI = 3
Event.POST_CRS_PRE_MPI = 2
Event.PRE_CRS_POST_MPI = 1
Event.PRE_CRS_PRE_MPI = 0
State.CONTINUE = 1
State.ERROR = 3
State.PREPARE = 0
State.RESTART = 2
class Event(enum.IntEnum):
class State(enum.IntEnum):
def checkpoint():
def inc_register_callback(event, function):
def library():
def migrate(hostname=None, rank=-1, off_node=False, comm=None):
def mpi_finalize():
def mpi_init():
def quiesce(comm=None):
def quiesce_checkpoint(comm=None):
def quiesce_end(comm=None):
def quiesce_start(comm=None):
def restart(handle, seq):
def self_register_checkpoint_callback(function):
def self_register_continue_callback(function):
def self_register_restart_callback(function):
