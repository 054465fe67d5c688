// Package memory reads how much memory the control groups of a process leave it. A file
// on a RAM disk counts as memory of the process that has written it, and a process that
// needs more than its group may have is killed. So a batch system that limits a job's
// memory limits its caches in /dev/shm.
package memory

import (
	"bufio"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// A Limit is how much memory the processes of a control group may use together.
type Limit struct {
	Group string // path of the control group below the mount point of its kind
	Bytes int64
	Used  int64 // without copies of files on disks, which the kernel drops when it needs room
}

// Free returns the bytes that are left.
func (l Limit) Free() int64 { return max(l.Bytes-l.Used, 0) }

// Tightest returns the limit that leaves the caller least: of its control group or of one
// above. It returns false if there is none, or none that can be read.
func Tightest() (Limit, bool) { return tightest("/") }

// kind is what differs between the two kinds of control groups (Linux: "Memory Resource
// Controller" and "Control Group v2").
type kind struct {
	limit, used string // files
	stat        string // how the bytes of a group and those below it begin in memory.stat
}

var (
	v1 = kind{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"}
	v2 = kind{"memory.max", "memory.current", ""}
)

// none and more is no limit: groups of the first kind have the largest number of pages.
const none = 1 << 60

func tightest(root string) (tightest Limit, ok bool) {
	first, second := groups(root)
	for _, m := range mounts(root) {
		k, group := v1, first
		if m.unified {
			k, group = v2, second
		}
		if group == "" {
			continue
		}
		// A container may see only its part of the groups.
		below, err := filepath.Rel(m.root, group)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			below = "."
		}
		for group := path.Join("/", below); ; group = path.Dir(group) {
			if l, limited := k.read(filepath.Join(root, m.point, group)); limited && (!ok || l.Free() < tightest.Free()) {
				l.Group = group
				tightest, ok = l, true
			}
			if group == "/" {
				break
			}
		}
	}
	return tightest, ok
}

// groups returns the caller's control groups: of the first kind, for memory, and of the second.
func groups(root string) (first, second string) {
	data, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(data)) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch {
		case number == "0" && controllers == "":
			second = group
		case has(controllers, "memory"):
			first = group
		}
	}
	return first, second
}

func has(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// mount is a mounted hierarchy of control groups.
type mount struct {
	root    string // the group that is at the mount point
	point   string
	unified bool // of the second kind
}

// mounts returns the hierarchies that can limit memory.
func mounts(root string) (list []mount) {
	f, err := os.Open(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		place, source, _ := strings.Cut(s.Text(), " - ")
		at, from := strings.Fields(place), strings.Fields(source)
		if len(at) < 5 || len(from) < 3 {
			continue
		}
		unified := from[0] == "cgroup2"
		if unified || from[0] == "cgroup" && has(from[2], "memory") {
			list = append(list, mount{at[3], at[4], unified})
		}
	}
	return list
}

// read returns the limit of the group in a directory, if it has one.
func (k kind) read(dir string) (l Limit, ok bool) {
	if l.Bytes, ok = number(filepath.Join(dir, k.limit)); !ok || l.Bytes >= none {
		return l, false
	}
	if l.Used, ok = number(filepath.Join(dir, k.used)); !ok {
		return l, false
	}
	data, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == k.stat+"inactive_file" || name == k.stat+"active_file" {
			n, _ := strconv.ParseInt(value, 10, 64)
			l.Used -= n
		}
	}
	l.Used = max(l.Used, 0)
	return l, true
}

func number(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil && n >= 0 // "max" is no number
}
