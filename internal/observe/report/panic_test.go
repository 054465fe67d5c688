package report

import (
	"strings"
	"testing"
)

type list []int

func (l list) first(deep int) int {
	if deep > 0 {
		return l.first(deep - 1)
	}
	return l[0]
}

func panics(deep int, what func(deep int)) (err error) {
	defer Recover(&err)
	what(deep)
	return nil
}

func TestRecover(t *testing.T) {
	var null *Logger
	for name, what := range map[string]func(int){
		"index out of range": func(deep int) { list(nil).first(deep) },
		"nil pointer":        func(int) { null.Debug = 1 },
		"a\tvalue":           func(int) { panic("a\tvalue") },
	} {
		for _, deep := range []int{0, 20, 1000} {
			err := panics(deep, what)
			if err == nil {
				t.Fatalf("%s: no error", name)
			}
			cause, calls, ok := strings.Cut(err.Error(), "; please report this line; calls, the last one first: ")
			if !ok || !strings.HasPrefix(cause, "internal error: ") || !strings.Contains(cause, name) {
				t.Errorf("%s: %s", name, err)
			}
			last, from := "report.TestRecover.func", "report.panics panic_test.go:19"
			if name == "index out of range" {
				last = "report.list.first panic_test.go:14"
			}
			if !strings.HasPrefix(calls, last) || strings.Contains(calls, "runtime.") || strings.Contains(calls, "Calls ") {
				t.Errorf("%s: calls %s", name, calls)
			}
			long := name == "index out of range" && deep == 1000
			if strings.HasSuffix(calls, ", ...") != long || strings.Contains(calls, from) == long {
				t.Errorf("%s, %d deep: calls %s", name, deep, calls)
			}
			if len(calls) > maxCalls || strings.Contains(calls, "\n") {
				t.Errorf("%s: %d bytes: %s", name, len(calls), calls)
			}
		}
	}
	if err := panics(0, func(int) {}); err != nil {
		t.Error(err)
	}
}
