package report

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Recover makes a panic of the function that defers it the error err: no panic may end the
// program. A goroutine that the library starts defers it, since no caller of the program
// waits there for a panic.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("internal error: %v; %s", p, Calls())
	}
}

// maxCalls is the length in bytes at which Calls ends. A pipe takes a line of 4 KiB at once;
// a longer one is mixed with the lines of other ranks.
const maxCalls = 2400

// Calls returns the calls that led to a panic, for its error: one line, which asks the user
// to report it. It must be called by a deferred function, while that recovers.
func Calls() string {
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var line strings.Builder
	line.WriteString("please report this line; calls, the last one first: ")
	panicked := false
	for n := 0; ; {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true // what was called before it is this function and its callers
		case panicked && !strings.HasPrefix(f.Function, "runtime."):
			call := fmt.Sprintf("%s %s:%d", f.Function[strings.LastIndexByte(f.Function, '/')+1:], filepath.Base(f.File), f.Line)
			if line.Len()+len(call) > maxCalls {
				line.WriteString(", ...")
				return line.String()
			}
			if n++; n > 1 {
				line.WriteString(", ")
			}
			line.WriteString(call)
		}
		if !more {
			return line.String()
		}
	}
}
