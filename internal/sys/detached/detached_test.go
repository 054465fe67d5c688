package detached

import (
	"slices"
	"testing"
)

func TestPlaces(t *testing.T) {
	for code, want := range map[string]string{
		"/build/libscr.so":                                "/build/scr_transfer",
		"/opt/lib/libscr.so":                              "/opt/bin/scr_transfer",
		"/opt/lib/goscr/openmpi/libscr.so":                "/opt/bin/scr_transfer",
		"/usr/lib/x86_64-linux-gnu/goscr/mpich/libscr.so": "/usr/bin/scr_transfer",
	} {
		if list := places(code, "scr_transfer"); !slices.Contains(list, want) {
			t.Errorf("%s: %q has no %s", code, list, want)
		}
	}
}
