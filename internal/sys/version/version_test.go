package version

import (
	"runtime/debug"
	"testing"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, ""},
		{&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.3"}}, "1.2.3"},
		{&debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, ""},
		{&debug.BuildInfo{Main: debug.Module{Path: "example.org/app", Version: "v7.0.0"}}, ""},
		{&debug.BuildInfo{Main: debug.Module{Path: "example.org/app", Version: "v7.0.0"},
			Deps: []*debug.Module{{Path: "example.org/other", Version: "v3.0.0"}, {Path: module, Version: "v1.2.3"}}}, "1.2.3"},
	} {
		if got := of(c.info); got != c.want {
			t.Errorf("%v: %q, want %q", c.info, got, c.want)
		}
	}
}

func TestGoscr(t *testing.T) {
	if Goscr() == "" {
		t.Error("empty")
	}
	stamped = "4.5.6"
	defer func() { stamped = "" }()
	if got := Goscr(); got != "4.5.6" {
		t.Errorf("%q is not what the build has stamped", got)
	}
}
