package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/observe/report"
)

// CheckFailed is what scr_check_node prints before the reason for which a node cannot be
// used.
const CheckFailed = "scr_check_node: FAIL: "

// answerTime is how long a node may take to answer a command that checks it.
const answerTime = 15 * time.Second

// patientTime is how long nodes may take that have not answered within answerTime, if the nodes that have answered were
// slow, or none has answered.
const patientTime = 60 * time.Second

// slowAnswer is the time for an answer from which on a node is slow; for tests it can be changed.
var slowAnswer = answerTime / 4

// Down returns which of the nodes cannot be used, with the reason for each. It includes
// those in known, which it does not check again. It checks the others at the same time:
// whether they answer, and whether the directories of cache and control files can be
// used. If free is true, these need the configured size as free space; else only the size
// of their file systems is compared with it.
func (j *Job) Down(ctx context.Context, nodes []string, known map[string]string, free bool) (map[string]string, error) {
	down := maps.Clone(known)
	if down == nil {
		down = map[string]string{}
	}
	excluded, err := j.Excluded()
	if err != nil {
		return nil, err
	}
	for _, n := range hostlist.Intersection(nodes, excluded) {
		note(down, n, "excluded by SCR_EXCLUDE_NODES")
	}
	reported, err := j.Manager.Down(ctx, nodes)
	if err != nil {
		j.Tell("%s does not say which nodes are down: %v", j.Manager.Name(), err)
	}
	for n, reason := range reported {
		note(down, n, reason)
	}
	rest := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return down[n] != "" })
	if len(rest) == 0 {
		return down, nil
	}
	answers := j.OnNodes(ctx, rest, answerTime, j.checkCommand(free)...)
	if silent := silent(answers); busy(answers) && len(silent) > 0 && ctx.Err() == nil {
		maps.Copy(answers, j.OnNodes(ctx, silent, patientTime, j.checkCommand(free)...))
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for n, a := range answers {
		switch {
		case a.Err != nil:
			note(down, n, a.Err.Error())
		case a.Status != 0:
			reason := strings.TrimSpace(strings.TrimPrefix(a.Out, CheckFailed))
			note(down, n, fmt.Sprintf("scr_check_node: %s", cmp.Or(reason, fmt.Sprintf("exit status %d", a.Status))))
		}
	}
	return down, nil
}

// silent returns the nodes that have not answered, in order.
func silent(answers map[string]Answer) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(answers)), func(n string) bool { return answers[n].Err == nil })
}

// busy reports whether the network or this node is more likely busy than nodes are lost: nodes that have answered were
// slow, or none has answered. All nodes at once are seldom lost.
func busy(answers map[string]Answer) bool {
	answered := false
	for _, a := range answers {
		if a.Err == nil && a.took >= slowAnswer {
			return true
		}
		answered = answered || a.Err == nil
	}
	return !answered
}

// note records why a node is down, unless a reason is recorded already.
func note(down map[string]string, node, reason string) {
	if down[node] == "" {
		down[node] = reason
	}
}

// checkCommand returns the command that checks the directories of a node.
func (j *Job) checkCommand(free bool) []string {
	argv := []string{j.Tool, "check_node"}
	if free {
		argv = append(argv, "--free")
	}
	with := func(bytes map[string]int64, bases []string) string {
		for i, base := range bases {
			if size, ok := bytes[base]; ok {
				bases[i] += ":" + strconv.FormatInt(size, 10)
			}
		}
		return strings.Join(bases, ",")
	}
	return append(argv, "--cntl="+with(j.Config.CntlDirs, j.ControlBases()), "--cache="+with(j.Config.CacheDirs, j.CacheBases()))
}

// CheckDirs returns an error if one of the directories in list cannot be used on this
// node. list has items "path" or "path:size", separated by commas; size is the space that
// is needed. free selects whether that is compared with free space or with the size of
// the file system.
func CheckDirs(list string, free bool) error {
	for item := range strings.SplitSeq(list, ",") {
		if item == "" {
			continue
		}
		path, size, found := strings.Cut(item, ":")
		var bytes int64
		if found {
			var ok bool
			if bytes, ok = config.ParseSize(size); !ok {
				return fmt.Errorf("%s: %q is not a number of bytes, such as 4096, 64k or 20g", path, size)
			}
		}
		if err := checkDir(path, bytes, free); err != nil {
			return err
		}
	}
	return nil
}

func checkDir(path string, bytes int64, free bool) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	// Write a file to find out: the mode of the directory does not show that a file
	// system has become read-only, or that it is full.
	f, err := os.CreateTemp(path, ".scr-check-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	if err := errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	blocks, what := st.Blocks, "has"
	if free {
		blocks, what = st.Bavail, "has free"
	}
	if room := int64(blocks) * st.Bsize; room < bytes {
		return fmt.Errorf("%s %s %s, and %s are needed", path, what, report.Bytes(room), report.Bytes(bytes))
	}
	return nil
}

// Reasons returns a line "node: reason" for each node that is down, in the order of the
// nodes' names.
func Reasons(down map[string]string) []string {
	var lines []string
	names, _ := hostlist.Parse(strings.Join(keys(down), ","))
	for _, n := range names {
		lines = append(lines, n+": "+down[n])
	}
	return lines
}
