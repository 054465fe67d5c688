package report

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// Recover makes a panic of the function that defers it the error err: no panic may end the
// program. A goroutine that the library starts defers it, since no caller of the program
// waits there for a panic.
func Recover(err *error) {
	if p := recover(); p != nil {
		stack := strings.ReplaceAll(strings.TrimSpace(string(debug.Stack())), "\n", " | ")
		*err = fmt.Errorf("internal error: %v; please report it with these lines: %s", p, stack)
	}
}
