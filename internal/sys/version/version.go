// Package version has the version of goscr itself. That of SCR's interface, which
// SCR_Get_version returns, is scr.Version.
package version

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// stamped is set by the linker: the Makefile passes what scripts/version prints.
var stamped string

// Goscr returns the version of goscr, such as 1.0.0 or 1.0.0-dev.572.g0a1b2c3 (commits before
// the release, and the last of them). A program that uses goscr as a Go module has the
// version of the module. It is "unknown" if the build has recorded none.
func Goscr() string {
	if stamped != "" {
		return stamped
	}
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(of(info), "unknown")
}

const module = "github.com/goscr/goscr"

// of returns the version of the module in a program, "" if it is not recorded.
func of(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	text := info.Main.Version
	if info.Main.Path != module {
		text = ""
		for _, m := range info.Deps {
			if m.Path == module {
				text = m.Version
			}
		}
	}
	if text == "(devel)" {
		return ""
	}
	return strings.TrimPrefix(text, "v")
}
