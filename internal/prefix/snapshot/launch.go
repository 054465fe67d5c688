package snapshot

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/processes"
	"github.com/goscr/goscr/internal/sys/trust"
)

// launch.scr is how scr_run was started, and the command line of the launcher that it was
// given, for a job whose ranks cannot see these processes. It counts as long as scr_run
// runs.
//
//	LAUNCHER, RUNNER / ...    as in the facts
const launchFile = "launch.scr"

type launch struct {
	Launcher *Start `hash:"LAUNCHER"`
	Runner   *Start `hash:"RUNNER"`
}

// RecordLaunch records how scr_run, the calling process, was started.
func RecordLaunch(dir string, runner, launcher []string) error {
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	h := hash.Marshal(launch{Runner: &Start{keepWords(runner), wd}, Launcher: &Start{keepWords(launcher), wd}})
	return hash.ReplaceFile(metadata(dir, launchFile), h.Encode(), mode)
}

// findLaunch returns how the job of this process was started, as far as that can be found
// out: by scr_run's own record, or by the processes above this one.
func findLaunch(dir string) (launcher, runner *Start) {
	if lock.Held(request.LoopPath(dir)) {
		path := metadata(dir, launchFile)
		// A job with this record could be started again by it.
		if h, info, err := hash.ReadOwned(path); err == nil && (trust.Users{}).Check(path, info) == nil {
			l := hash.As[launch](h)
			return l.Launcher, l.Runner
		}
	}
	for _, p := range processes.Above(os.Getpid()) {
		if launcher == nil && isLauncher(p.Argv) {
			wd, _ := processes.Dir(p.PID) // "" if it is another user's
			launcher = &Start{keepWords(p.Argv), wd}
		}
	}
	return launcher, nil
}

// isLauncher reports whether a command line is of a launcher.
func isLauncher(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	name, _, _ := strings.Cut(filepath.Base(argv[0]), ".") // Debian has mpirun.openmpi
	return slices.Contains(batch.Launchers(), name)
}
