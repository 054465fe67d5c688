// Package image protects programs that know nothing of checkpoints: a command of the site saves the
// image of a process, such as CRIU, and another one starts a process from it. A rank starts
// one program, and the files that the command leaves are the rank's part of a checkpoint.
//
// The program must not use MPI, since no image has the other end of a connection. The rank that
// starts it does, by session.Session, and starts from the beginning with each run.
package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Commands are texts for a shell with placeholders: %p for the process of the program, %d for a
// directory, which is also the working directory, %i for a file that gets the process of a restored program, and %%.
type Commands struct {
	Dump    string        // saves the process %p to files in %d; SCR_CR_IMAGE
	Restore string        // starts it from them, writes its process to %i, and ends when it ends; SCR_CR_IMAGE_RESTORE
	Limit   time.Duration // how long the first may take, and the second until it has written %i; 0: for ever
}

// criu is what the word "criu" stands for.
var criu = Commands{
	Dump:    "criu dump --tree %p --images-dir %d --shell-job --leave-running",
	Restore: "criu restore --images-dir %d --shell-job --pidfile %i",
}

// New returns the commands of the parameters. The word "criu" stands for both commands of CRIU.
func New(dump, restore string, limit time.Duration) (Commands, error) {
	c := Commands{dump, restore, limit}
	if strings.TrimSpace(dump) == "criu" {
		c.Dump, c.Restore = criu.Dump, cmp.Or(restore, criu.Restore)
	}
	switch {
	case c.Dump == "":
		return c, errors.New("SCR_CR_IMAGE has no value: it is the command that saves a process")
	case c.Restore == "":
		return c, errors.New("SCR_CR_IMAGE_RESTORE has no value: it is the command that starts a process again")
	}
	for name, text := range map[string]string{"SCR_CR_IMAGE": c.Dump, "SCR_CR_IMAGE_RESTORE": c.Restore} {
		if _, err := expand(text, 0, "", ""); err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, needs := range map[string][]string{"SCR_CR_IMAGE": {c.Dump, "%p"}, "SCR_CR_IMAGE_RESTORE": {c.Restore, "%i"}} {
		if !strings.Contains(strings.ReplaceAll(needs[0], "%%", ""), needs[1]) {
			return c, fmt.Errorf("%s: %q has no %s", name, needs[0], needs[1])
		}
	}
	return c, nil
}

// expand puts values into a command, in quotes of the shell.
func expand(text string, pid int, dir, pidFile string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch {
		case i == len(text):
			return "", fmt.Errorf("%q ends with %%; %%%% stands for one", text)
		case text[i] == '%':
			b.WriteByte('%')
		case text[i] == 'p':
			b.WriteString(strconv.Itoa(pid))
		case text[i] == 'd':
			b.WriteString(quote(dir))
		case text[i] == 'i':
			b.WriteString(quote(pidFile))
		default:
			return "", fmt.Errorf("%q has %%%c; known are %%p, %%d, %%i and %%%%", text, text[i])
		}
	}
	return b.String(), nil
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Check returns an error if a command cannot work on this machine: it is not installed, or it is
// CRIU, and CRIU finds that it does not work with this kernel.
func (c Commands) Check(ctx context.Context) error {
	for _, text := range []string{c.Dump, c.Restore} {
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		tool := words[0]
		if name := filepath.Base(tool); name != "criu" && !strings.HasPrefix(name, "dmtcp_") {
			continue // what the shell makes of it is known only when it runs
		}
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s cannot be used: %w", tool, err)
		}
		if filepath.Base(tool) != "criu" {
			continue
		}
		if out, err := exec.CommandContext(ctx, tool, "check").CombinedOutput(); err != nil {
			return fmt.Errorf("CRIU does not work on this kernel: %s check: %w: %s", tool, err, reason(string(out)))
		}
	}
	return nil
}

// reason returns the line of CRIU's output that says most: its first errors tell only that a child
// has ended.
func reason(out string) string {
	first := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if !strings.Contains(line, "Error") {
			continue
		}
		if first == "" {
			first = line
		}
		if !strings.Contains(line, "exited, status=") {
			return line
		}
	}
	return cmp.Or(first, strings.TrimSpace(out))
}
