package config

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/internal/sys/compress"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Type is the type of a parameter's values.
type Type int

// The types of parameters.
const (
	Text       Type = iota // any text, or one of Parameter.Values
	Name                   // text that is one component of a path
	Path                   // path of a file or directory; made absolute and clean
	Int                    // whole number
	Bool                   // 0 or 1, no or yes, false or true
	BoolOrAuto             // a Bool, or AUTO
	Size                   // bytes, with an optional suffix k, m, g or t (powers of 1024)
	Float                  // decimal number
	Seconds                // seconds as a decimal number
)

// Scope says which rank's environment decides on a parameter.
type Scope int

const (
	// Job is one value for all ranks: rank 0 decides, from its environment
	// and its working directory, so that ranks cannot disagree.
	Job Scope = iota
	// Rank lets the environment of each rank decide for that rank.
	Rank
)

// Parameter describes one parameter. The struct Values, the tables of
// docs/config.md and ENVIRONMENT in man pages are made from these descriptions.
type Parameter struct {
	Name    string
	Type    Type
	Default string // in the form in which a user would write it: $VAR is expanded
	Unset   string // in Markdown, for docs/config.md: the value of a parameter that is not set, if that is not just Default
	Unit    string // of a number
	Example string // a value; for an item or a field, a line that sets it
	Help    string // one line of Markdown
	Scope   Scope
	Secret  bool     // must not be written where other users can read it
	Min     int64    // least Int, Size or Seconds that is accepted
	Off     bool     // a negative number is 0, which turns something off
	Values  []string // the values that a Text accepts, in upper case; nil accepts any

	// valid checks a Text that has a syntax of its own.
	valid func(text string) error

	// derive asks the system for the value of a parameter that is not set, and says where
	// the value came from. If it returns "", Default is the value.
	derive func(environ Environ) (text, from string)
}

// Section is a section of the table of parameters and of docs/config.md.
type Section struct {
	Title      string
	Parameters []Parameter
}

// Parameters are all parameters.
var Parameters = func() (all []Parameter) {
	for _, s := range Sections {
		all = append(all, s.Parameters...)
	}
	return all
}()

// Sections define all parameters. Defaults are written here and nowhere else.
var Sections = []Section{
	{"The job", []Parameter{
		{Name: "SCR_ENABLE", Type: Bool, Default: "1", Example: "0",
			Help: "0: every call returns an error at once; `SCR_Route_file` also returns the name unchanged"},
		{Name: "SCR_PREFIX", Type: Path, Default: "$PWD", Example: "/p/project/run7",
			Help: "prefix directory: the directory on the parallel file system to which datasets are flushed and from which they are fetched"},
		{Name: "SCR_CONF_FILE", Type: Path, Default: "$SCR_PREFIX/.scrconf", Example: "$HOME/scr.conf",
			Help: "configuration file of the user"},
		{Name: trust.Parameter, Type: Text, Example: "1234", valid: func(text string) error { _, err := trust.ParseUsers(text); return err },
			Help: "users, by name or number, separated by commas, whose configuration files and records in the prefix directory count, besides your own and root's: they can run any command as you. It has no effect in the user's configuration file"},
		{Name: "SCR_JOB_ID", Type: Name, Default: "defjobid", Unset: "unless the resource manager has set an id in `SLURM_JOB_ID`, `SLURM_JOBID`, `LSB_JOBID`, `PBS_JOBID` or `FLUX_JOB_ID`", Example: "model.3", derive: jobID,
			Help: "id of the allocation. It is part of the paths of the job's directories on the nodes, where the next run finds the cache; jobs that run at the same time need different ids"},
		{Name: "SCR_USER_NAME", Type: Name, Unset: "the login name", Example: "anna", derive: userName,
			Help: "name of the user, part of the paths of the job's directories on the nodes"},
		{Name: "SCR_JOB_NAME", Type: Text, Example: "heat-2d",
			Help: "name of the job, recorded with each dataset and in the log"},
		{Name: "SCR_CLUSTER_NAME", Type: Text, Example: "atlas",
			Help: "name of the cluster, recorded with each dataset and in the log"},
		{Name: "SCR_RECORD", Type: Bool, Default: "1", Example: "0",
			Help: "record with each checkpoint how the job was started, for `scr_restart`"},
		{Name: "SCR_RECORD_ENV", Type: Text, Example: "MYAPP_*",
			Help: "more environment variables to record, as patterns separated by blanks; never those that may be secrets"},
		{Name: "SCR_NODE_NAME", Type: Text, Unset: "the host name", Example: "node17", Scope: Rank, derive: hostName,
			Help: "name of the node: ranks with the same name are on one node"},
		{Name: "SCR_ABORT_ON_ERROR", Type: Bool, Default: "0", Example: "1",
			Help: "1: the library ends the program with `MPI_Abort` where SCR 3.1 does so: after a call in the wrong place, bad settings, a `SCR_Init` that cannot work, and other errors that a program without checks of return codes would not notice. 0: every error is returned"},
		{Name: "SCR_DEBUG", Type: Int, Default: "0", Off: true, Example: "1",
			Help: "messages on stderr: 0: warnings and errors; 1: also the steps of the library; 2: also details"},
	}},
	{"Cache and redundancy", []Parameter{
		{Name: "SCR_CACHE_BASE", Type: Path, Default: "/dev/shm", Example: "/l/ssd", Scope: Rank,
			Help: "node-local directory below which datasets are cached. goscr makes it if necessary, and prints a warning if it also had to make directories above it, except the user's own"},
		{Name: "SCR_CNTL_BASE", Type: Path, Default: "/dev/shm", Example: "/tmp", Scope: Rank,
			Help: "node-local directory below which the control files are stored, which list the datasets in the cache"},
		{Name: "SCR_CACHE_SIZE", Type: Int, Default: "2", Unit: "datasets", Example: "3",
			Help: "maximum number of datasets in the cache. 1: the only one is evicted before the next is written; 0: the same as `SCR_CACHE_BYPASS=1`"},
		{Name: "SCR_CACHE_BYPASS", Type: Bool, Default: "0", Example: "1",
			Help: "1: datasets are written to the prefix directory, where several ranks may write one file"},
		{Name: "SCR_CACHE_PURGE", Type: Bool, Default: "0", Example: "1",
			Help: "1: `SCR_Init` deletes all datasets from the cache"},
		{Name: "SCR_CACHE_KEEP", Type: Bool, Default: "1", Example: "0",
			Help: "0: `SCR_Finalize` removes the job's directories on the nodes, if the prefix directory has their datasets or a newer checkpoint; 1: they stay for the next run on these nodes, and `scr_clean` removes them"},
		{Name: "SCR_COPY_TYPE", Type: Text, Default: "XOR", Example: "RS", Values: append(slices.Clone(copyTypes), "FILE"),
			Help: "redundancy scheme: `SINGLE` or `LOCAL` (none: the loss of a node loses the dataset), `PARTNER` (copies), `XOR`, `RS` (Reed-Solomon); `FILE`: the schemes of the `CKPT` lines, of which there must be at least one"},
		{Name: "SCR_GROUP", Type: Text, Default: "NODE", Example: "POWER",
			Help: "failure group, the ranks that are likely to fail together: `NODE`, or a field of the `GROUPS` lines"},
		{Name: "SCR_SET_SIZE", Type: Int, Default: "8", Unit: "ranks", Example: "16", Min: 1,
			Help: "minimum number of members of a redundancy set, if there are enough ranks"},
		{Name: "SCR_SET_FAILURES", Type: Int, Default: "0", Unit: "ranks", Example: "3",
			Help: "number of members of a set that can be lost with `PARTNER` or `RS`; 0: 1 with `PARTNER`, 2 with `RS`"},
		{Name: "SCR_HOP_DISTANCE", Type: Int, Default: "1", Unit: "groups", Example: "2", Min: 1,
			Help: "distance between neighbours in a redundancy set, in failure groups"},
		{Name: "SCR_MPI_BUF_SIZE", Type: Size, Default: "256k", Unit: "bytes", Example: "1m", Min: 1,
			Help: "size of the pieces in which files are sent between nodes; 64 to 16m"},
	}},
	{"Prefix directory", []Parameter{
		{Name: "SCR_FLUSH", Type: Int, Default: "10", Off: true, Unit: "checkpoints", Example: "20",
			Help: "every n-th checkpoint is flushed, that is, copied to the prefix directory. `SCR_Finalize` and a halt of the job also flush the newest one. 0: no checkpoint is flushed. Outputs are always flushed"},
		{Name: "SCR_FLUSH_COMPRESS", Type: Text, Example: "zstd:1", valid: compression,
			Help: "a flush compresses each file of a checkpoint that becomes smaller: `zstd`, or with a level, `zstd:1` (fast) to `zstd:22` (small)"},
		{Name: "SCR_FETCH", Type: Bool, Default: "1", Example: "0",
			Help: "0: the library does not restart from the prefix directory"},
		{Name: "SCR_RESTART", Type: Text, Default: "MAY", Example: "must", Values: []string{"MAY", "MUST", "NEVER"},
			Help: "`must`: `SCR_Have_restart` fails if there is no checkpoint from which the program can restart, or if the program has refused all, instead of letting it start from the beginning; `never`: no checkpoint is offered, and what the run writes replaces checkpoints with the same names; `may`: one is offered if there is one"},
		{Name: "SCR_FETCH_ON_INIT", Type: Bool, Default: "0", Example: "1",
			Help: "1: `SCR_Init` fetches the checkpoint to restart from, for programs that never call `SCR_Have_restart`"},
		{Name: "SCR_FETCH_BYPASS", Type: Bool, Default: "0", Example: "1",
			Help: "1: a restart reads files directly from the prefix directory; the number of ranks may differ, and any rank may read any file"},
		{Name: "SCR_PREFIX_SIZE", Type: Int, Default: "0", Off: true, Unit: "checkpoints", Example: "5",
			Help: "maximum number of checkpoints in the prefix directory: older ones are deleted, but not outputs, nor checkpoints of other computations; 0: no limit"},
		{Name: "SCR_PREFIX_SHARED", Type: Bool, Default: "0", Example: "1",
			Help: "1: other jobs may work in the prefix directory at the same time; by default `SCR_Init` fails if one does. A job is offered its own checkpoints only, and replaces and deletes nothing of another: `SCR_JOB_NAME` says whose a dataset is, or else `SCR_JOB_ID`"},
		{Name: "SCR_PREFIX_PURGE", Type: Bool, Default: "0", Example: "1",
			Help: "1: `SCR_Init` deletes all datasets from the prefix directory"},
		{Name: "SCR_COPY_METADATA", Type: Bool, Default: "1", Example: "0",
			Help: "0: copied files have the mode, owner and times of new files; 1: those of the original"},
		{Name: "SCR_FLUSH_WIDTH", Type: Int, Default: "256", Unit: "ranks", Example: "64", Min: 1,
			Help: "maximum number of ranks that copy to the prefix directory at the same time"},
		{Name: "SCR_FETCH_WIDTH", Type: Int, Default: "256", Unit: "ranks", Example: "64", Min: 1,
			Help: "maximum number of ranks that copy from the prefix directory at the same time"},
		{Name: "SCR_FLUSH_ASYNC", Type: Bool, Default: "0", Example: "1",
			Help: "1: flushes run while the program computes; several can run at a time. A later call finishes each of them, `SCR_Finalize` at the latest. A dataset cannot be evicted from the cache while it is flushed, and the program waits for the flush when the cache is full: `SCR_CACHE_SIZE=3` leaves room for two more datasets. `SCR_FLUSH_WIDTH` does not limit these flushes"},
		{Name: "SCR_FLUSH_TYPE", Type: Text, Default: "PTHREAD", Example: "DAEMON", Values: flushTypes,
			Help: "how files are copied with `SCR_FLUSH_ASYNC=1`: `PTHREAD`: by a thread of each process; `DAEMON`: by `scr_transfer`, one process on each node, which completes the copy even if the program dies; `SYNC`: by the processes themselves, while the program waits"},
		{Name: "SCR_FLUSH_ASYNC_BW", Type: Size, Default: "0", Off: true, Unit: "bytes a second", Example: "200m",
			Help: "maximum rate at which a node copies with `SCR_FLUSH_ASYNC=1`, measured before compression; 0: no limit"},
		{Name: "SCR_FLUSH_ASYNC_PERCENT", Type: Float, Default: "0", Unit: "percent", Example: "10",
			Help: "maximum share of one processor of a node that copying uses with `SCR_FLUSH_ASYNC=1`; 0: no limit"},
		{Name: "SCR_FLUSH_ASYNC_USLEEP", Type: Int, Default: "100000", Unit: "microseconds", Example: "1000",
			Help: "shortest time between two calls of `SCR_Need_checkpoint` that test whether the ranks have copied, with `SCR_FLUSH_ASYNC=1`"},
		{Name: "SCR_ENCODE_ASYNC", Type: BoolOrAuto, Default: "0", Example: "AUTO",
			Help: "`1`: `SCR_Complete_output` returns when all ranks know that the files are valid; a thread of each process protects them while the program computes. Until then goscr does not evict the newest protected dataset: the program waits for the protection if goscr would have to evict that dataset, or if the program completes the next dataset first. With `SCR_CACHE_SIZE=1` the program always waits. If the thread has done less than half of its work then, and uses TCP, the call protects the dataset itself, as fast as with 0. `SCR_FLUSH_ASYNC_BW` and `SCR_FLUSH_ASYNC_PERCENT` limit protection, too. `AUTO`: as with `1` or as with `0`, whichever costs the program less time: goscr measures the wait, the processor time of the thread, and how long the processors of the node are idle between two datasets"},
		{Name: "SCR_ENCODE_CARRIER", Type: Text, Default: "SOCKETS", Example: "MPI", Values: []string{"SOCKETS", "MPI"},
			Help: "what carries the messages with `SCR_ENCODE_ASYNC=1`: `SOCKETS`: TCP; `MPI`: the program's MPI, if the program has initialized it with `MPI_THREAD_MULTIPLE`, else TCP"},
		{Name: "SCR_NET_INTERFACE", Type: Text, Unset: "the first network that both sides are connected to, or else one to which there is a route", Example: "ib0", Scope: Rank,
			Help: "network interface of a node over which messages go with `SCR_ENCODE_CARRIER=SOCKETS`"},
		{Name: "SCR_AXL_MKDIR", Type: Bool, Default: "0", Example: "1",
			Help: "has no effect: the directories of files are always made before they are copied. It is accepted because settings for SCR may have it"},
		{Name: "SCR_FLUSH_POSTSTAGE", Type: Bool, Default: "0", Example: "1",
			Help: "1, with `SCR_FLUSH_TYPE=DAEMON`: `SCR_Finalize` does not wait for flushes; `scr_postrun`, `scr_index --build` or the next `SCR_Init` finishes them"},
		{Name: "SCR_CRC_ON_FLUSH", Type: Bool, Default: "1", Example: "0",
			Help: "0: checksums are not verified in a flush or fetch"},
		{Name: "SCR_CRC_ON_COPY", Type: Bool, Default: "1", Example: "1",
			Help: "has no effect: checksums are computed whenever bytes are read in the cache. 0 causes a warning"},
		{Name: "SCR_CRC_ON_DELETE", Type: Bool, Default: "0", Example: "1",
			Help: "1: the checksums of files are verified before they are evicted from the cache, and corrupt files are reported. Files without redundancy on a RAM disk also get their checksums in `SCR_Complete_output` then, and not when they are flushed"},
		{Name: "SCR_FILE_BUF_SIZE", Type: Size, Default: "1m", Unit: "bytes", Example: "4m", Min: 1,
			Help: "size of the pieces in which files are copied to and from the prefix directory; 64 to 16m"},
	}},
	{"Restart", []Parameter{
		{Name: "SCR_CURRENT", Type: Text, Example: "ckpt.1200",
			Help: "name of the checkpoint to restart from; newer ones in the cache are deleted once it is loaded. If it is in the environment, `scr_run` passes it on until a run has completed a checkpoint"},
		{Name: "SCR_DROP_AFTER_CURRENT", Type: Bool, Default: "0", Example: "1",
			Help: "1: when `SCR_Current` or `SCR_CURRENT` names a dataset, newer ones are removed from the index too; their files stay in the prefix directory"},
		{Name: "SCR_JOB_INPUT", Type: Text, Example: "model.nml",
			Help: "files that the job reads as input, separated by blanks (in a configuration file a blank is `\\ `), relative to the working directory. `SCR_Init` reads them on rank 0 and records a digest of their contents with each checkpoint; a checkpoint of other contents is not offered for a restart, except by `SCR_CURRENT`. goscr flushes such a checkpoint from the cache; if the flush fails, it stays there until this run has completed a checkpoint"},
		{Name: "SCR_DISTRIBUTE", Type: Bool, Default: "1", Example: "0",
			Help: "0: datasets in the cache are not used; they stay there until the run has completed a checkpoint, or needs their room"},
		{Name: "SCR_FLUSH_ON_RESTART", Type: Bool, Default: "0", Example: "1",
			Help: "1: `SCR_Init` flushes the datasets in the cache, for programs that look for their files in the prefix directory themselves (with `SCR_FETCH=0`)"},
		{Name: "SCR_GLOBAL_RESTART", Type: Bool, Default: "0", Example: "1",
			Help: "1: `SCR_Init` flushes the datasets in the cache, and a restart reads them with `SCR_FETCH_BYPASS=1`"},
	}},
	{"When to checkpoint, when to stop", []Parameter{
		{Name: "SCR_CHECKPOINT_INTERVAL", Type: Int, Default: "0", Off: true, Unit: "calls", Example: "10",
			Help: "`SCR_Need_checkpoint` says yes at every n-th call; 0: not set"},
		{Name: "SCR_CHECKPOINT_SECONDS", Type: Seconds, Default: "0", Off: true, Unit: "seconds", Example: "600",
			Help: "`SCR_Need_checkpoint` says yes when this time has passed since the last checkpoint ended, or since the run began; 0: not set"},
		{Name: "SCR_CHECKPOINT_OVERHEAD", Type: Float, Default: "0", Unit: "percent", Example: "2.5",
			Help: "maximum overhead of checkpoints. `SCR_Need_checkpoint` says yes for the first one, to measure its cost, and then whenever the cost would be at most this share of the time since the last; 0: not set"},
		{Name: "SCR_MTBF_SECONDS", Type: Seconds, Default: "0", Off: true, Unit: "seconds", Example: "86400",
			Help: "mean time between failures of the job. `SCR_Need_checkpoint` says yes at Daly's optimum interval, computed from it and the cost of checkpoints; 0: computed from the failures of runs in this prefix directory, once three have failed"},
		{Name: "SCR_HALT_SECONDS", Type: Seconds, Default: "0", Off: true, Unit: "seconds", Example: "900",
			Help: "the job should stop this time before the allocation ends; 0: the end of the allocation does not stop it. The value is entered in `.scr/halt.scr` and stays there"},
		{Name: "SCR_END_TIME", Type: Int, Default: "0", Off: true, Unit: "seconds since 1970", Example: "1795300000",
			Help: "when the allocation ends (`scr_run` sets it); 0: the resource manager is asked"},
		{Name: "SCR_HALT_EXIT", Type: Bool, Default: "0", Example: "1",
			Help: "1: when the job should stop, the library flushes its newest checkpoint and ends it, in `SCR_Init` or when a checkpoint is complete"},
	}},
	{"Programs that save themselves", []Parameter{
		{Name: "SCR_CR_SELF_PREFIX", Type: Text, Default: "opal_crs_self_user", Example: "my_app",
			Help: "common beginning of the names of three functions, `..._checkpoint`, `..._continue` and `..._restart`, which `libscr_cr.so` calls to save and restore a program that does not call SCR itself"},
		{Name: "SCR_CR_THREAD", Type: Bool, Default: "1", Example: "0",
			Help: "1: these functions run in a thread of `libscr_cr.so`, beside the program's, when a checkpoint is due by `scr_checkpoint` or an interval; 0: in the thread of the program that makes the next call of MPI, as always if MPI does not give `MPI_THREAD_MULTIPLE`"},
		{Name: "SCR_CR_LIMIT_SECONDS", Type: Seconds, Default: "600", Unit: "seconds", Example: "60",
			Help: "time limit for each of these functions and for the commands of `scr_image`; with `SCR_CR_THREAD=0` also the longest time without a call of MPI. After that the checkpoint fails, and the previous one stays; 0: no limit. Ranks inside a call of MPI wait up to this time for the other ranks. goscr cannot interrupt calls of MPI that start processes or open a file, and does not see them: if a rank in such a call waits for ranks that wait for the checkpoint, only this limit ends the wait; set a few seconds if the program often makes such calls. If MPI does not give `MPI_THREAD_MULTIPLE`, the same is true of `MPI_Intercomm_create`, `MPI_Comm_create_group`, `MPI_Comm_disconnect` and `MPI_Win_free`. With `SCR_CR_THREAD=0` goscr does not interrupt a function that takes longer, and the other ranks wait for it; meanwhile `scr_checkpoint` prints an error that names the rank and the function"},
		{Name: "SCR_CR_LIMIT_ABORT", Type: Bool, Default: "0", Example: "1",
			Help: "1: with `SCR_CR_THREAD=0`, a function that takes longer than `SCR_CR_LIMIT_SECONDS` ends the job, by `MPI_Abort`"},
		{Name: "SCR_CR_IMAGE", Type: Text, Unset: "none", Example: "criu",
			Help: "what saves the process `%p` to files in the directory `%d`: a command for `/bin/sh`, such as `save-process %p %d` (in the environment, since a file can have no value with blanks), or `criu`; for [`scr_image`](inside.md#programs-that-know-nothing-of-checkpoints). If its status is not 0 on a rank, or if it takes more than `SCR_CR_LIMIT_SECONDS`, there is no checkpoint"},
		{Name: "SCR_CR_IMAGE_RESTORE", Type: Text, Unset: "none; for `SCR_CR_IMAGE=criu` that of CRIU", Example: "/opt/images/restore",
			Help: "what starts the process again from the files in `%d`, writes its number to the file `%i`, and ends when the process ends, with its status; such as `load-process %d %i`, in the environment. If `%i` is not there after `SCR_CR_LIMIT_SECONDS`, goscr ends the command, and the checkpoint counts as failed. `%%` stands for a percent sign"},
		{Name: "SCR_CR_DEBUG", Type: Bool, Default: "0", Example: "1",
			Help: "1: with `libscr_cr.so`, each rank prints its process after a restart, and waits until a debugger lets it continue ([debugging.md](debugging.md)); `scr_restart --crdebug` sets it"},
		{Name: "SCR_CHECK_IN_FLIGHT", Type: Bool, Default: "0", Example: "1",
			Help: "1: with `libscr_cr.so`, `SCR_Start_output` and `SCR_Start_checkpoint` print which messages have been sent and not received; a checkpoint would not have them"},
	}},
	{"Other processes", []Parameter{
		{Name: "SCR_WAIT_SECONDS", Type: Seconds, Default: "60", Unit: "seconds", Min: 1, Example: "600",
			Help: "how long the library and the commands wait for another process that holds a lock or has to end, and that does not renew its lock; then the wait is an error. After a twelfth of this time, at most 5 seconds, a line names the process"},
	}},
	{"Run commands", []Parameter{
		{Name: "SCR_RESOURCE_MANAGER", Type: Text, Default: "AUTO", Example: "SLURM", Values: []string{"AUTO", "SLURM", "FLUX", "LSF", "PBS", "ALPS", "NONE"},
			Help: "resource manager of the allocation: `SLURM`, `FLUX`, `LSF`, `PBS`, `ALPS`, `NONE`; `AUTO`: the one whose variables are in the environment"},
		{Name: "SCR_NODELIST", Type: Text, Unset: "the resource manager's list", Example: "atlas[3,5-7]",
			Help: "nodes of the allocation"},
		{Name: "SCR_HOST_FILE", Type: Text, Unset: "none: this node alone", Example: "nodes.txt",
			Help: "file with the names of the nodes, one on each line, for a job without a resource manager"},
		{Name: "SCR_EXCLUDE_NODES", Type: Text, Example: "atlas[5-6]",
			Help: "nodes that `scr_run` must not use"},
		{Name: "SCR_MIN_NODES", Type: Int, Default: "0", Unit: "nodes", Example: "4",
			Help: "number of nodes that the program needs; 0: all nodes in the first run, then as many as the last run used"},
		{Name: "SCR_RUNS", Type: Int, Default: "-1", Unit: "runs", Example: "3", Min: -1,
			Help: "maximum number of times that `scr_run` starts the program; -1: no limit"},
		{Name: "SCR_RETRIES", Type: Int, Default: "-1", Unit: "runs", Example: "2", Min: -1,
			Help: "maximum number of times that `scr_run` starts the program again, if `SCR_RUNS` is not set; -1: no limit"},
		{Name: "SCR_RECOVERY", Type: Text, Default: strings.Join(RecoveryRungs, ","), Example: "SAME,STOP", valid: recovery,
			Help: "the ways that `scr_run` tries after a failed run, in this order: `MIGRATE`: do what `scr_migrate` has asked for; `SAME`: start again on the same nodes, unless one is down or suspect; `SPARE`: replace these nodes by others; `FEWER`: with `SCR_GLOBAL_RESTART=1` use fewer nodes, but at least `SCR_MIN_NODES`; `STOP`: copy the datasets in the caches to the prefix directory and end the job. `scr_run` also stops if no other way is possible"},
		{Name: "SCR_PREDICT_SECONDS", Type: Seconds, Default: "0", Unit: "seconds", Example: "60",
			Help: "how often `scr_run` asks which nodes are likely to fail: `SCR_PREDICT_COMMAND`, and Slurm, about nodes that drain or fail and reservations for maintenance; 0: never"},
		{Name: "SCR_PREDICT_COMMAND", Type: Text, Example: "/opt/health/predict",
			Help: "command that prints a line for each node that is likely to fail: its name, and optionally the seconds until then (`-`: unknown), the probability and a reason. `scr_run` gives it to a shell"},
		{Name: "SCR_PREDICT_ASSURANCE", Type: Float, Default: "0.5", Example: "0.9",
			Help: "least probability, from 0 to 1, of a prediction that `scr_run` acts on"},
		{Name: "SCR_PREDICT_HOLDOFF", Type: Seconds, Default: "3600", Unit: "seconds", Example: "600",
			Help: "least time between two migrations because of predictions. Until it has passed, a prediction for another node only causes a checkpoint or a copy of its files, and a further prediction for the same node causes nothing"},
		{Name: "SCR_WATCHDOG", Type: Bool, Default: "0", Example: "1",
			Help: "1: `scr_run` ends a run that has completed no checkpoint for `SCR_WATCHDOG_TIMEOUT`"},
		{Name: "SCR_WATCHDOG_TIMEOUT", Type: Seconds, Default: "0", Unit: "seconds", Example: "1800",
			Help: "time without a checkpoint after which `SCR_WATCHDOG=1` ends a run; 0: computed from the intervals between checkpoints of the run"},
		{Name: "SCR_WATCHDOG_TIMEOUT_PFS", Type: Seconds, Default: "0", Unit: "seconds", Example: "3600",
			Help: "the same while a dataset is flushed; 0: `SCR_WATCHDOG_TIMEOUT`"},
		{Name: "SCR_LAUNCH_TIMEOUT", Type: Seconds, Default: "0", Unit: "seconds", Example: "600",
			Help: "`scr_run` ends a run whose program has not called `SCR_Init` after this time. 0: the first run has no limit; with `SCR_WATCHDOG=1` a later run has four times what earlier ones needed, and at least 5 minutes"},
		{Name: "SCR_REMOTE_SHELL", Type: Text, Default: "AUTO", Example: "SSH", Values: []string{"AUTO", "SRUN", "PDSH", "SSH"},
			Help: "how commands are run on other nodes: `SRUN`, `PDSH`, `SSH`; `AUTO`: srun under Slurm, else pdsh if it is installed, else ssh"},
	}},
	{"The log", []Parameter{
		{Name: "SCR_LOG_ENABLE", Type: Bool, Default: "0", Example: "1",
			Help: "1: log the events of datasets to the file, syslog and the database, as far as these are enabled"},
		{Name: "SCR_LOG_TXT_ENABLE", Type: Bool, Default: "1", Example: "0",
			Help: "1: log to the file `.scr/log` in the prefix directory"},
		{Name: "SCR_LOG_MAX_SIZE", Type: Size, Default: "256m", Unit: "bytes", Example: "1g",
			Help: "a text log of this size becomes `.scr/log.1`, and goscr begins a new one and keeps four older ones; 0: no limit"},
		{Name: "SCR_LOG_MAX_AGE", Type: Seconds, Default: "0", Unit: "seconds", Example: "2592000",
			Help: "a text log whose first line is older than this becomes `.scr/log.1` when a run begins; 0: no limit"},
		{Name: "SCR_LOG_SYSLOG_ENABLE", Type: Bool, Default: "1", Example: "0",
			Help: "1: log to syslog, if there is one"},
		{Name: "SCR_LOG_SYSLOG_PREFIX", Type: Text, Default: "SCR", Example: "heat",
			Help: "tag of the messages to syslog"},
		{Name: "SCR_LOG_SYSLOG_FACILITY", Type: Text, Default: "LOG_LOCAL7", Example: "LOG_USER", Values: SyslogFacilities,
			Help: "facility of the messages to syslog: `LOG_USER`, `LOG_DAEMON`, `LOG_LOCAL0` to `LOG_LOCAL7`"},
		{Name: "SCR_LOG_SYSLOG_LEVEL", Type: Text, Default: "LOG_INFO", Example: "LOG_NOTICE", Values: SyslogLevels,
			Help: "level of the messages to syslog: `LOG_ERR`, `LOG_WARNING`, `LOG_NOTICE`, `LOG_INFO`, `LOG_DEBUG`"},
		{Name: "SCR_LOG_SYSLOG_SOCKET", Type: Text, Unset: "the system's", Example: "/run/log",
			Help: "socket of syslog"},
		{Name: "SCR_LOG_DB_ENABLE", Type: Bool, Default: "0", Example: "1",
			Help: "1: log to a database"},
		{Name: "SCR_LOG_DB_HOST", Type: Text, Unset: "none: SQLite in `.scr/log.sqlite` of the prefix directory", Example: "db:3306",
			Help: "server of the database, MySQL or MariaDB: host, host:port, or path of a socket"},
		{Name: "SCR_LOG_DB_USER", Type: Text, Unset: "the login name", Example: "scr", derive: userName,
			Help: "user on the database server"},
		{Name: "SCR_LOG_DB_PASS", Type: Text, Example: "secret", Secret: true,
			Help: "password on the database server. If `SCR_Config` sets it, only the program has it: goscr does not store it in the prefix directory, where commands find other settings"},
		{Name: "SCR_LOG_DB_NAME", Type: Text, Default: "scrlog", Example: "jobs",
			Help: "database on the server"},
		{Name: "SCR_METRICS_DIR", Type: Text, Unset: "none", Example: "/var/lib/prometheus/node-exporter",
			Help: "directory of node_exporter's textfile collector, on the node of rank 0 and that of `scr_run`: each keeps a file of metrics there, even without a log"},
		{Name: "SCR_LOG_DB_DEBUG", Type: Bool, Default: "0", Example: "1",
			Help: "1: show the statements that are sent to the database"},
	}},
}

// ItemKind describes the items of one kind, of which there may be any number,
// each a line KIND=id FIELD=value … of a configuration file.
type ItemKind struct {
	Parameter             // what the id of an item may be
	Fields    []Parameter // nil accepts any field
}

// ItemKinds are all kinds of items. Their fields have no default: where an item does not
// set a field, the parameters of the job decide.
var ItemKinds = []ItemKind{
	{Parameter{Name: "GROUPS", Type: Text, Example: "GROUPS=node17 POWER=psu3 SWITCH=s0",
		Help: "the failure groups of a node: each field is a kind of group, and its value the name of the group that the node is in. A node without a line is alone in its group"}, nil},
	{Parameter{Name: "CNTLDIR", Type: Path, Example: "CNTLDIR=/dev/shm BYTES=1g",
		Help: "a directory for control files, which `scr_run` checks on each node"}, []Parameter{
		{Name: "BYTES", Type: Size, Unit: "bytes", Example: "CNTLDIR=/dev/shm BYTES=1g",
			Help: "minimum size of its file system"},
	}},
	{Parameter{Name: "CACHEDIR", Type: Path, Example: "CACHEDIR=/l/ssd BYTES=100g",
		Help: "a directory for datasets, which `scr_run` checks on each node"}, []Parameter{
		{Name: "BYTES", Type: Size, Unit: "bytes", Example: "CACHEDIR=/l/ssd BYTES=100g",
			Help: "minimum size of its file system"},
	}},
	{Parameter{Name: "STORE", Type: Path, Unset: "the one of `SCR_CACHE_BASE`", Example: "STORE=/l/ssd COUNT=5", Scope: Rank,
		Help: "a directory that can hold datasets; each rank expands variables in it with its own environment"}, []Parameter{
		{Name: "COUNT", Type: Int, Unset: "as `SCR_CACHE_SIZE`", Unit: "datasets", Example: "STORE=/l/ssd COUNT=5",
			Help: "maximum number of datasets in the store; 0: datasets are written to the prefix directory"},
		{Name: "GROUP", Type: Text, Unset: "`NODE`", Example: "STORE=/shared GROUP=WORLD",
			Help: "group of the ranks that share the storage. `WORLD`: all ranks share it; then several may write one file, and files are kept with `SINGLE`"},
		{Name: "VIEW", Type: Text, Unset: "`PRIVATE`", Example: "STORE=/shared VIEW=GLOBAL", Values: []string{"PRIVATE", "GLOBAL"},
			Help: "another way to set `GROUP`: `PRIVATE` is `GROUP=NODE`, `GLOBAL` is `GROUP=WORLD`"},
		{Name: "MKDIR", Type: Bool, Unset: "1", Example: "STORE=/l/ssd/anna MKDIR=0",
			Help: "0: the directory is not created, and must exist"},
		{Name: "ENABLED", Type: Bool, Unset: "1", Example: "STORE=/l/ssd ENABLED=0",
			Help: "0: the store and the `CKPT` lines that name it are ignored"},
		{Name: "FLUSH", Type: Text, Unset: "as `SCR_FLUSH_TYPE`", Example: "STORE=/l/ssd FLUSH=SYNC", Values: flushTypes,
			Help: "how datasets of the store are copied with `SCR_FLUSH_ASYNC=1`"},
		{Name: "FETCH", Type: Text, Example: "STORE=/l/ssd FETCH=SYNC",
			Help: "has no effect; it is accepted because files written for SCR may have it"},
	}},
	{Parameter{Name: "CKPT", Type: Int, Unset: "one, from the parameters", Example: "CKPT=1 INTERVAL=4 TYPE=RS",
		Help: "a redundancy descriptor: it sets the protection of datasets, and selects the datasets that use it. One line must have `INTERVAL=1`. If `SCR_COPY_TYPE` is set, and is not `FILE`, the lines have no effect"}, []Parameter{
		{Name: "INTERVAL", Type: Int, Unset: "1", Unit: "checkpoints", Example: "CKPT=1 INTERVAL=4", Min: 1,
			Help: "a checkpoint uses the line with the largest interval that divides the checkpoint's number"},
		{Name: "TYPE", Type: Text, Unset: "as `SCR_COPY_TYPE`", Example: "CKPT=1 TYPE=PARTNER", Values: copyTypes,
			Help: "redundancy scheme: `SINGLE` (also called `LOCAL`), `PARTNER`, `XOR` or `RS`"},
		{Name: "STORE", Type: Path, Unset: "as `SCR_CACHE_BASE`", Example: "CKPT=1 STORE=/l/ssd",
			Help: "store in which the dataset is cached"},
		{Name: "GROUP", Type: Text, Unset: "as `SCR_GROUP`", Example: "CKPT=1 GROUP=POWER",
			Help: "failure group, the ranks that are likely to fail together"},
		{Name: "SET_SIZE", Type: Int, Unset: "as `SCR_SET_SIZE`", Unit: "ranks", Example: "CKPT=1 SET_SIZE=4", Min: 1,
			Help: "minimum number of members of a redundancy set"},
		{Name: "SET_FAILURES", Type: Int, Unset: "as `SCR_SET_FAILURES`", Unit: "ranks", Example: "CKPT=1 SET_FAILURES=3", Min: 1,
			Help: "number of members of a set that can be lost"},
		{Name: "BYPASS", Type: Bool, Unset: "as `SCR_CACHE_BYPASS`", Example: "CKPT=1 BYPASS=1",
			Help: "1: the dataset is written to the prefix directory"},
		{Name: "OUTPUT", Type: Bool, Unset: "0", Example: "CKPT=3 OUTPUT=1",
			Help: "1: the line applies to datasets with `SCR_FLAG_OUTPUT`"},
		{Name: "ENABLED", Type: Bool, Unset: "1", Example: "CKPT=1 ENABLED=0",
			Help: "0: the line is ignored"},
	}},
}

// The facilities and levels of syslog(3) that messages can have.
var (
	SyslogFacilities = []string{"LOG_USER", "LOG_DAEMON", "LOG_LOCAL0", "LOG_LOCAL1", "LOG_LOCAL2", "LOG_LOCAL3",
		"LOG_LOCAL4", "LOG_LOCAL5", "LOG_LOCAL6", "LOG_LOCAL7"}
	SyslogLevels = []string{"LOG_ERR", "LOG_WARNING", "LOG_NOTICE", "LOG_INFO", "LOG_DEBUG"}
)

// RecoveryRungs are the ways to continue after a failed run that SCR_RECOVERY may name, in the
// order in which they are tried by default.
var RecoveryRungs = []string{"MIGRATE", "SAME", "SPARE", "FEWER", "STOP"}

// Recovery returns the names in a value of SCR_RECOVERY, in upper case.
func Recovery(text string) ([]string, error) {
	var names []string
	for word := range strings.SplitSeq(text, ",") {
		name := strings.ToUpper(strings.TrimSpace(word))
		good := strings.Join(RecoveryRungs, ", ")
		switch {
		case !slices.Contains(RecoveryRungs, name):
			return nil, fmt.Errorf("%q is not one of %s (several are separated by commas)", word, good)
		case slices.Contains(names, name):
			return nil, fmt.Errorf("%s is named twice", name)
		case slices.Contains(names, "STOP"):
			return nil, fmt.Errorf("%s follows STOP, so it would never be tried", name)
		}
		names = append(names, name)
	}
	return names, nil
}

var flushTypes = []string{"SYNC", "PTHREAD", "DAEMON"}

// LOCAL is the name of SINGLE in older versions of SCR; the scheme has the one name everywhere else.
var copyTypes = []string{"SINGLE", "LOCAL", "PARTNER", "XOR", "RS"}

func find(list []Parameter, name string) *Parameter {
	i := slices.IndexFunc(list, func(p Parameter) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// findOrText is like find, but for a name that is not in the list it returns a parameter
// that accepts any text.
func findOrText(list []Parameter, name string) *Parameter {
	if p := find(list, name); p != nil {
		return p
	}
	return &Parameter{Name: name}
}

func findKind(name string) *ItemKind {
	i := slices.IndexFunc(ItemKinds, func(k ItemKind) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return &ItemKinds[i]
}

func recovery(text string) error {
	_, err := Recovery(text)
	return err
}

func compression(text string) error {
	_, err := compress.Parse(text)
	return err
}

func userName(Environ) (text, from string) {
	uid := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(uid); err == nil && u.Username != "" {
		return u.Username, "the passwd entry of user id " + uid
	}
	return uid, "the user id, which has no passwd entry"
}

// Allocation returns the id that the resource manager has given the allocation, "" if there
// is none.
func Allocation(environ func(name string) (string, bool)) string {
	id, _ := jobID(environ)
	return id
}

// Launch returns what identifies the processes that a launcher has started at once: the name that PMIx gives
// them, or the step of Slurm. Other launchers say nothing, and all of their launches count as one.
func Launch(environ func(name string) (string, bool)) string {
	if text, _ := environ("PMIX_NAMESPACE"); text != "" {
		return text
	}
	job, _ := environ("SLURM_JOB_ID")
	step, _ := environ("SLURM_STEP_ID")
	if job != "" && step != "" {
		return job + "." + step
	}
	return "a launch"
}

func jobID(environ Environ) (text, from string) {
	// These are set by Slurm, its older releases, LSF, PBS and Torque, and Flux.
	for _, name := range []string{"SLURM_JOB_ID", "SLURM_JOBID", "LSB_JOBID", "PBS_JOBID", "FLUX_JOB_ID"} {
		if text, _ := environ(name); text != "" {
			return text, name + " in the environment"
		}
	}
	return "", ""
}

func hostName(Environ) (text, from string) {
	name, err := os.Hostname()
	if err != nil {
		return "", ""
	}
	return name, "the host name"
}
