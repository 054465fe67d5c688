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
	"github.com/goscr/goscr/internal/hostlist"
	"github.com/goscr/goscr/internal/report"
)

// answerTime is how long a node may take to say that it is well.
const answerTime = 15 * time.Second

// Down finds those of nodes that cannot be used, and why. known are nodes that
// are not used whatever they answer. With free, a node needs the configured room as free
// space; without, its file systems only have to be that large. All nodes are asked at the
// same time.
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
	for n, a := range j.OnNodes(ctx, rest, answerTime, j.checkCommand(free)...) {
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case a.Err != nil:
			note(down, n, a.Err.Error())
		case a.Status != 0:
			reason := strings.TrimSpace(strings.TrimPrefix(a.Out, "FAIL:"))
			note(down, n, fmt.Sprintf("scr_check_node: %s", cmp.Or(reason, fmt.Sprintf("exit status %d", a.Status))))
		}
	}
	return down, nil
}

// note keeps the first reason.
func note(down map[string]string, node, reason string) {
	if down[node] == "" {
		down[node] = reason
	}
}

// checkCommand is the command that checks the directories of a node.
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

// CheckDirs tries whether directories, "path" or "path:bytes" each, can be
// used on this node.
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
	// Trying is the only way to know: the mode says nothing of a file system
	// that has become read-only, or has no room for even one file.
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
		return fmt.Errorf("%s %s %s, and %s are wanted", path, what, report.Bytes(room), report.Bytes(bytes))
	}
	return nil
}

// Reasons writes nodes that are down and why, a line each.
func Reasons(down map[string]string) []string {
	var lines []string
	names, _ := hostlist.Parse(strings.Join(keys(down), ","))
	for _, n := range names {
		lines = append(lines, n+": "+down[n])
	}
	return lines
}

// LogDown enters nodes that are down into the log of the job, if it has one,
// with the seconds that the run has taken, if that is known. It runs the command for that,
// which knows where the log is kept.
func (j *Job) LogDown(ctx context.Context, down map[string]string, seconds int) {
	if !j.Config.LogEnable {
		return
	}
	id, err := j.ID(ctx)
	if err != nil {
		j.Tell("log: %v", err)
		return
	}
	for _, line := range Reasons(down) {
		argv := []string{j.Tool, "log_event", "--prefix", j.Prefix, "--jobid", id, "--type", "NODE_FAIL", "--note", line}
		if seconds > 0 {
			argv = append(argv, "--secs", strconv.Itoa(seconds))
		}
		if a := locally(ctx, answerTime, argv); a.failed() {
			j.Tell("log: %s", a.lastLine())
		}
	}
}
