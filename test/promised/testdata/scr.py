FLAG_CHECKPOINT = 1
FLAG_NONE = 0
FLAG_OUTPUT = 2
MAX_FILENAME = 1024
Output.route(self, name):
Restart.route(self, name):
SUCCESS = 0
class Error(RuntimeError):
class Output(_Phase):
class Restart(_Phase):
def checkpoint(name, version):
def complete_checkpoint(valid=True):
def complete_output(valid=True):
def complete_restart(valid=True):
def config(text):
def current(name):
def delete(name):
def drop(name):
def finalize():
def get_error():
def get_version():
def have_restart():
def init(mpi=True, comm=None):
def library():
def need_checkpoint():
def newest(name, most=0):
def output(name=None, flags=FLAG_CHECKPOINT):
def protect(name, array, group=None):
def rank():
def recover(repaired=None):
def restart():
def restore(name, version):
def route_file(name):
def should_exit():
def size():
def start_checkpoint():
def start_output(name=None, flags=FLAG_CHECKPOINT):
def start_restart():
def unprotect(name, group=None):
