# Prints the hashes of libscr.so in gdb as trees (SCR Developer's Manual, "Debugging"):
#
#   (gdb) source /usr/local/share/goscr/gdb/goscr.py
#   (gdb) scr-hash h
#
# The expression is a hash or a pointer to one in a function of Go. As in scr_print, a key with
# one value stands on one line. A program that is stopped is only read.

import gdb

HASH = "github.com/goscr/goscr/hash.Hash"
DEEPEST = 64       # a chain of pointers that is deeper was changed by somebody else
MOST = 1 << 20     # ... as was a length beyond this


def text(value):
    """The string of a Go string."""
    length = int(value["len"])
    if length < 0 or length > MOST:
        return "<a string of %d bytes>" % length
    return value["str"].string("utf-8", "replace", length=length) if length else ""


def elements(value):
    """The keys of a hash with their hashes."""
    while value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR:
        if int(value) == 0:
            return []
        value = value.dereference()
    slice = value["elements"]
    length = int(slice["len"])
    if length < 0 or length > MOST:
        raise gdb.GdbError("a hash with %d keys: this is no hash, or it was changed" % length)
    array = slice["array"]
    return [(text(array[i]["key"]), array[i]["child"]) for i in range(length)]


def lines(value, indent=0):
    """The lines of a tree."""
    if indent > DEEPEST:
        yield "  " * indent + "..."
        return
    for key, child in elements(value):
        below = elements(child)
        if len(below) == 1 and not elements(below[0][1]):
            yield "  " * indent + key + " = " + below[0][0]
        else:
            yield "  " * indent + key
            yield from lines(child, indent + 1)


class Print(gdb.Command):
    """scr-hash EXPRESSION: print a hash of libscr.so as a tree."""

    def __init__(self):
        super().__init__("scr-hash", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        if not argument:
            raise gdb.GdbError("scr-hash EXPRESSION: an expression for a hash, or for a pointer to one")
        value = gdb.parse_and_eval(argument)
        of = value.type.strip_typedefs()
        while of.code == gdb.TYPE_CODE_PTR:
            of = of.target().strip_typedefs()
        if of.name != HASH:
            raise gdb.GdbError("%s is of the type %s, not a hash" % (argument, value.type))
        for line in lines(value):
            print(line)


Print()
