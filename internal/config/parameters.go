package config

import (
	"os"
	"os/user"
	"slices"
	"strconv"

	"github.com/goscr/goscr/internal/compress"
)

// Type is what the value of a parameter may be.
type Type int

// The types of parameters.
const (
	Text    Type = iota // any text, or one of Parameter.Values
	Name                // text that is one component of a path
	Path                // path of a file or directory; made absolute and clean
	Int                 // whole number
	Bool                // 0 or 1, no or yes, false or true
	Size                // bytes, with an optional suffix k, m, g or t (powers of 1024)
	Float               // decimal number
	Seconds             // seconds as a decimal number
)

// Scope is whose environment decides on a parameter.
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
	Default string // as a user would write it: $VAR is expanded
	Unset   string // in Markdown: what counts where nobody sets it, if that is not Default alone
	Unit    string // of a number
	Example string // a value; of an item and its fields, a line that sets it
	Help    string // one line of Markdown
	Scope   Scope
	Secret  bool     // not to be written where others can read it
	Min     int64    // least Int, Size or Seconds that is accepted
	Values  []string // all that a Text may be, in upper case; nil accepts any

	// valid says what is wrong with a Text that has a form of its own.
	valid func(text string) error

	// derive finds the value in the system where no value was set, and
	// says where that comes from. Default follows if it gives "".
	derive func(environ Environ) (text, from string)
}

// Section is a part of the table, and of docs/config.md.
type Section struct {
	Title      string
	Parameters []Parameter
}

// Parameters is every parameter there is.
var Parameters = func() (all []Parameter) {
	for _, s := range Sections {
		all = append(all, s.Parameters...)
	}
	return all
}()

// Sections is every parameter there is, and the only place of its default.
var Sections = []Section{
	{"The job", []Parameter{
		{Name: "SCR_ENABLE", Type: Bool, Default: "1", Example: "0",
			Help: "0: every call returns an error at once, and `SCR_Route_file` copies the name"},
		{Name: "SCR_PREFIX", Type: Path, Default: "$PWD", Example: "/p/project/run7",
			Help: "prefix directory: the directory on the parallel file system that datasets are flushed to and fetched from"},
		{Name: "SCR_CONF_FILE", Type: Path, Default: "$SCR_PREFIX/.scrconf", Example: "$HOME/scr.conf",
			Help: "configuration file of the user"},
		{Name: "SCR_JOB_ID", Type: Name, Default: "defjobid", Unset: "unless the resource manager has an id: `SLURM_JOB_ID`, `SLURM_JOBID`, `LSB_JOBID`, `PBS_JOBID`, `FLUX_JOB_ID`", Example: "model.3", derive: jobID,
			Help: "id of the allocation. It names the job's directories on the nodes, by which the next run finds the cache; jobs that run at the same time need different ids"},
		{Name: "SCR_USER_NAME", Type: Name, Unset: "the login name", Example: "anna", derive: userName,
			Help: "name of the user, part of the paths of the job's directories on the nodes"},
		{Name: "SCR_JOB_NAME", Type: Text, Example: "\"heat 2-d\"",
			Help: "name of the job, recorded with each dataset and in the log"},
		{Name: "SCR_CLUSTER_NAME", Type: Text, Example: "atlas",
			Help: "name of the cluster, recorded with each dataset and in the log"},
		{Name: "SCR_NODE_NAME", Type: Text, Unset: "the host name", Example: "node17", Scope: Rank, derive: hostName,
			Help: "name of the node: ranks with the same name are on one node"},
		{Name: "SCR_DEBUG", Type: Int, Default: "0", Example: "1",
			Help: "messages on stderr: 0 warnings and errors, 1 also what is done, 2 also details"},
	}},
	{"Cache and redundancy", []Parameter{
		{Name: "SCR_CACHE_BASE", Type: Path, Default: "/dev/shm", Example: "/l/ssd", Scope: Rank,
			Help: "directory inside the node below which datasets are cached"},
		{Name: "SCR_CNTL_BASE", Type: Path, Default: "/dev/shm", Example: "/tmp", Scope: Rank,
			Help: "directory inside the node below which the files are that say what is in the cache"},
		{Name: "SCR_CACHE_SIZE", Type: Int, Default: "2", Unit: "datasets", Example: "3",
			Help: "most datasets in the cache. With 1, the only one is evicted before the next is written; 0 does the same as `SCR_CACHE_BYPASS=1`"},
		{Name: "SCR_CACHE_BYPASS", Type: Bool, Default: "0", Example: "1",
			Help: "1: datasets are written to the prefix directory, where several ranks may write one file"},
		{Name: "SCR_CACHE_PURGE", Type: Bool, Default: "0", Example: "1",
			Help: "1: `SCR_Init` deletes all datasets from the cache"},
		{Name: "SCR_COPY_TYPE", Type: Text, Default: "XOR", Example: "RS", Values: append(slices.Clone(copyTypes), "FILE"),
			Help: "redundancy scheme: `SINGLE` (none: a node that is lost loses the dataset), `PARTNER` (copies), `XOR`, `RS` (Reed-Solomon); `FILE`: as `CKPT` lines say, which there have to be"},
		{Name: "SCR_GROUP", Type: Text, Default: "NODE", Example: "POWER",
			Help: "ranks that fail together: `NODE`, or a field of the `GROUPS` lines"},
		{Name: "SCR_SET_SIZE", Type: Int, Default: "8", Unit: "ranks", Example: "16", Min: 1,
			Help: "least members of a redundancy set, where there are enough ranks"},
		{Name: "SCR_SET_FAILURES", Type: Int, Default: "0", Unit: "ranks", Example: "3",
			Help: "members of a set that can be lost with `PARTNER` or `RS`; 0: 1 with `PARTNER`, 2 with `RS`"},
		{Name: "SCR_HOP_DISTANCE", Type: Int, Default: "1", Unit: "groups", Example: "2", Min: 1,
			Help: "neighbours in a set are this many failure groups apart"},
		{Name: "SCR_MPI_BUF_SIZE", Type: Size, Default: "256k", Unit: "bytes", Example: "1m", Min: 1,
			Help: "size of the pieces in which files travel between nodes; 64 to 16m"},
	}},
	{"Prefix directory", []Parameter{
		{Name: "SCR_FLUSH", Type: Int, Default: "10", Unit: "checkpoints", Example: "20",
			Help: "every n-th checkpoint is copied to the prefix directory, and the newest in `SCR_Finalize` or when the job is to halt; 0: none. Outputs are copied in any case"},
		{Name: "SCR_FLUSH_COMPRESS", Type: Text, Example: "zstd:1", valid: compression,
			Help: "`zstd`, or with a level `zstd:1` (fast) to `zstd:22` (small): a flush compresses checkpoints, file by file where that makes them smaller"},
		{Name: "SCR_FETCH", Type: Bool, Default: "1", Example: "0",
			Help: "0: no restart from the prefix directory"},
		{Name: "SCR_FETCH_ON_INIT", Type: Bool, Default: "0", Example: "1",
			Help: "1: `SCR_Init` fetches the checkpoint to restart from, for programs that never call `SCR_Have_restart`"},
		{Name: "SCR_FETCH_BYPASS", Type: Bool, Default: "0", Example: "1",
			Help: "1: a restart reads files where they are in the prefix directory, any number of ranks, any rank any file"},
		{Name: "SCR_PREFIX_SIZE", Type: Int, Default: "0", Unit: "checkpoints", Example: "5",
			Help: "most checkpoints that are kept in the prefix directory, the newest, beside all outputs; 0: all"},
		{Name: "SCR_PREFIX_PURGE", Type: Bool, Default: "0", Example: "1",
			Help: "1: `SCR_Init` deletes all datasets from the prefix directory"},
		{Name: "SCR_COPY_METADATA", Type: Bool, Default: "1", Example: "0",
			Help: "0: copied files have mode, owner and times of new ones"},
		{Name: "SCR_FLUSH_WIDTH", Type: Int, Default: "256", Unit: "ranks", Example: "64", Min: 1,
			Help: "most ranks that copy to the prefix directory at the same time"},
		{Name: "SCR_FETCH_WIDTH", Type: Int, Default: "256", Unit: "ranks", Example: "64", Min: 1,
			Help: "most ranks that copy from the prefix directory at the same time"},
		{Name: "SCR_FLUSH_ASYNC", Type: Bool, Default: "0", Example: "1",
			Help: "1: a flush runs while the program computes, and several may; a later call finishes it, at the latest `SCR_Finalize`. A dataset that is being flushed keeps its place in the cache, and the program waits for it when the place is needed: `SCR_CACHE_SIZE=3` leaves room for two more. `SCR_FLUSH_WIDTH` does not count for it"},
		{Name: "SCR_FLUSH_TYPE", Type: Text, Default: "PTHREAD", Example: "DAEMON", Values: flushTypes,
			Help: "who copies with `SCR_FLUSH_ASYNC=1`: `PTHREAD`, a thread of each process; `DAEMON`, `scr_transfer`, one process on each node, which copies to the end when the program dies; `SYNC`, the processes, and the program waits"},
		{Name: "SCR_FLUSH_ASYNC_BW", Type: Size, Default: "0", Unit: "bytes a second", Example: "200m",
			Help: "most that a node copies with `SCR_FLUSH_ASYNC=1`, before it is compressed; 0: no limit"},
		{Name: "SCR_FLUSH_ASYNC_PERCENT", Type: Float, Default: "0", Unit: "percent", Example: "10",
			Help: "most that copying takes of one processor of a node with `SCR_FLUSH_ASYNC=1`; 0: no limit"},
		{Name: "SCR_FLUSH_POSTSTAGE", Type: Bool, Default: "0", Example: "1",
			Help: "1, with `SCR_FLUSH_TYPE=DAEMON`: `SCR_Finalize` does not wait; `scr_postrun`, `scr_index --build` or the next `SCR_Init` finish the flush"},
		{Name: "SCR_CRC_ON_FLUSH", Type: Bool, Default: "1", Example: "0",
			Help: "0: checksums are not compared in a flush or fetch"},
		{Name: "SCR_CRC_ON_COPY", Type: Bool, Default: "1", Example: "1",
			Help: "checksums in the cache; 0 is answered with a warning, and changes nothing"},
		{Name: "SCR_CRC_ON_DELETE", Type: Bool, Default: "0", Example: "1",
			Help: "1: files that are evicted from the cache are read before, and it is said which are not what was written"},
		{Name: "SCR_FILE_BUF_SIZE", Type: Size, Default: "1m", Unit: "bytes", Example: "4m", Min: 1,
			Help: "size of the pieces in which files are copied to and from the prefix directory; 64 to 16m"},
	}},
	{"Restart", []Parameter{
		{Name: "SCR_CURRENT", Type: Text, Example: "ckpt.1200",
			Help: "name of the checkpoint to restart from; newer ones in the cache are deleted once it is loaded"},
		{Name: "SCR_DROP_AFTER_CURRENT", Type: Bool, Default: "0", Example: "1",
			Help: "1: datasets that are newer than one that `SCR_Current` or `SCR_CURRENT` names leave the index too; their files stay"},
		{Name: "SCR_DISTRIBUTE", Type: Bool, Default: "1", Example: "0",
			Help: "0: what is in the cache is left there, unused, until the run writes a checkpoint"},
		{Name: "SCR_FLUSH_ON_RESTART", Type: Bool, Default: "0", Example: "1",
			Help: "1: `SCR_Init` flushes what is in the cache, for programs that look for their files themselves (with `SCR_FETCH=0`)"},
		{Name: "SCR_GLOBAL_RESTART", Type: Bool, Default: "0", Example: "1",
			Help: "1: `SCR_Init` flushes what is in the cache, and a restart reads it as with `SCR_FETCH_BYPASS=1`"},
	}},
	{"When to checkpoint, when to stop", []Parameter{
		{Name: "SCR_CHECKPOINT_INTERVAL", Type: Int, Default: "0", Unit: "calls", Example: "10",
			Help: "`SCR_Need_checkpoint` says yes at every n-th call; 0: not set"},
		{Name: "SCR_CHECKPOINT_SECONDS", Type: Seconds, Default: "0", Unit: "seconds", Example: "600",
			Help: "`SCR_Need_checkpoint` says yes when the last checkpoint ended, or the run began, so long ago; 0: not set"},
		{Name: "SCR_CHECKPOINT_OVERHEAD", Type: Float, Default: "0", Unit: "percent", Example: "2.5",
			Help: "`SCR_Need_checkpoint` says yes for the first checkpoint, to learn what it costs, then whenever one would cost no more of the time since the last; 0: not set"},
		{Name: "SCR_MTBF_SECONDS", Type: Seconds, Default: "0", Unit: "seconds", Example: "86400",
			Help: "mean time between failures of the job. `SCR_Need_checkpoint` says yes at the interval (Daly's) that loses the least with it, given what checkpoints cost; 0: as runs in this prefix directory have failed, once three have"},
		{Name: "SCR_HALT_SECONDS", Type: Seconds, Default: "0", Unit: "seconds", Example: "900",
			Help: "the job should stop so long before the allocation ends; 0: not by that. It is entered in `.scr/halt.scr`, where it stays"},
		{Name: "SCR_END_TIME", Type: Int, Default: "0", Unit: "seconds since 1970", Example: "1795300000",
			Help: "when the allocation ends (`scr_run` sets it); 0: as the resource manager says"},
		{Name: "SCR_HALT_EXIT", Type: Bool, Default: "0", Example: "1",
			Help: "1: the library ends the job itself when it should stop, in `SCR_Init` or after a dataset, its newest checkpoint flushed"},
	}},
	{"Other processes", []Parameter{
		{Name: "SCR_WAIT_SECONDS", Type: Seconds, Default: "60", Unit: "seconds", Min: 1, Example: "600",
			Help: "how long the library and the commands wait for another process that has a lock, or is to end, and shows no sign of life; then it is an error. A twelfth of it, at most 5 seconds, after a wait has begun, a line says for which process"},
	}},
	{"Run commands", []Parameter{
		{Name: "SCR_RESOURCE_MANAGER", Type: Text, Default: "AUTO", Example: "SLURM", Values: []string{"AUTO", "SLURM", "FLUX", "LSF", "PBS", "ALPS", "NONE"},
			Help: "resource manager of the allocation: `SLURM`, `FLUX`, `LSF`, `PBS`, `ALPS`, `NONE`; `AUTO`: as the environment tells"},
		{Name: "SCR_NODELIST", Type: Text, Unset: "as the resource manager says", Example: "atlas[3,5-7]",
			Help: "nodes of the allocation"},
		{Name: "SCR_HOST_FILE", Type: Text, Unset: "none: this node alone", Example: "nodes.txt",
			Help: "file with the names of the nodes, one a line, where there is no resource manager"},
		{Name: "SCR_EXCLUDE_NODES", Type: Text, Example: "atlas[5-6]",
			Help: "nodes that `scr_run` must not use"},
		{Name: "SCR_MIN_NODES", Type: Int, Default: "0", Unit: "nodes", Example: "4",
			Help: "nodes the program needs; 0: as many as the last run used, all for the first"},
		{Name: "SCR_RUNS", Type: Int, Default: "-1", Unit: "runs", Example: "3", Min: -1,
			Help: "most times that `scr_run` starts the program; -1: no limit"},
		{Name: "SCR_WATCHDOG", Type: Bool, Default: "0", Example: "1",
			Help: "1: `scr_run` ends a run that completes no checkpoint for too long"},
		{Name: "SCR_WATCHDOG_TIMEOUT", Type: Seconds, Default: "0", Unit: "seconds", Example: "1800",
			Help: "how long is too long for `SCR_WATCHDOG`; 0: as the checkpoints of the run tell"},
		{Name: "SCR_WATCHDOG_TIMEOUT_PFS", Type: Seconds, Default: "0", Unit: "seconds", Example: "3600",
			Help: "how long is too long for `SCR_WATCHDOG` while a dataset is flushed; 0: the same"},
		{Name: "SCR_LAUNCH_TIMEOUT", Type: Seconds, Default: "0", Unit: "seconds", Example: "600",
			Help: "`scr_run` ends a run whose program has not called `SCR_Init` by then; 0: not the first run, and with `SCR_WATCHDOG=1` later ones after four times what those before took, 5 minutes at least"},
		{Name: "SCR_REMOTE_SHELL", Type: Text, Default: "AUTO", Example: "SSH", Values: []string{"AUTO", "SRUN", "PDSH", "SSH"},
			Help: "how the commands reach other nodes: `SRUN`, `PDSH`, `SSH`; `AUTO`: srun under Slurm, else pdsh if it is there, else ssh"},
	}},
	{"The log", []Parameter{
		{Name: "SCR_LOG_ENABLE", Type: Bool, Default: "0", Example: "1",
			Help: "1: log what happens to datasets, in each place that is on"},
		{Name: "SCR_LOG_TXT_ENABLE", Type: Bool, Default: "1", Example: "0",
			Help: "1: log to `.scr/log` of the prefix directory"},
		{Name: "SCR_LOG_SYSLOG_ENABLE", Type: Bool, Default: "1", Example: "0",
			Help: "1: log to syslog, if there is one"},
		{Name: "SCR_LOG_SYSLOG_PREFIX", Type: Text, Default: "SCR", Example: "heat",
			Help: "tag of messages to syslog"},
		{Name: "SCR_LOG_SYSLOG_FACILITY", Type: Text, Default: "LOG_LOCAL7", Example: "LOG_USER", Values: SyslogFacilities,
			Help: "facility of messages to syslog: `LOG_USER`, `LOG_DAEMON`, `LOG_LOCAL0` to `7`"},
		{Name: "SCR_LOG_SYSLOG_LEVEL", Type: Text, Default: "LOG_INFO", Example: "LOG_NOTICE", Values: SyslogLevels,
			Help: "level of messages to syslog: `LOG_ERR`, `LOG_WARNING`, `LOG_NOTICE`, `LOG_INFO`, `LOG_DEBUG`"},
		{Name: "SCR_LOG_SYSLOG_SOCKET", Type: Text, Unset: "the system's", Example: "/run/log",
			Help: "socket of syslog"},
		{Name: "SCR_LOG_DB_ENABLE", Type: Bool, Default: "0", Example: "1",
			Help: "1: log to a database"},
		{Name: "SCR_LOG_DB_HOST", Type: Text, Unset: "none: SQLite in `.scr/log.sqlite` of the prefix directory", Example: "db:3306",
			Help: "server of the database, MySQL or MariaDB: host, host:port, or path of a socket"},
		{Name: "SCR_LOG_DB_USER", Type: Text, Unset: "the login name", Example: "scr", derive: userName,
			Help: "user on the database server"},
		{Name: "SCR_LOG_DB_PASS", Type: Text, Example: "secret", Secret: true,
			Help: "password on the database server; set by `SCR_Config` it is the program's alone, since commands must not find it in the prefix directory"},
		{Name: "SCR_LOG_DB_NAME", Type: Text, Default: "scrlog", Example: "jobs",
			Help: "database on the server"},
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

// ItemKinds is every kind of item there is. Fields have no default: what an
// item does not say is as the parameters say.
var ItemKinds = []ItemKind{
	{Parameter{Name: "GROUPS", Type: Text, Example: "GROUPS=node17 POWER=psu3 SWITCH=s0",
		Help: "a node, and for each kind of group the name of the one it is in. A node without a line is alone in a group"}, nil},
	{Parameter{Name: "CNTLDIR", Type: Path, Example: "CNTLDIR=/dev/shm BYTES=1g",
		Help: "what `scr_run` requires of a node's directory for control files"}, []Parameter{
		{Name: "BYTES", Type: Size, Unit: "bytes", Example: "CNTLDIR=/dev/shm BYTES=1g",
			Help: "size that the file system has to have"},
	}},
	{Parameter{Name: "CACHEDIR", Type: Path, Example: "CACHEDIR=/l/ssd BYTES=100g",
		Help: "what `scr_run` requires of a node's directory for datasets"}, []Parameter{
		{Name: "BYTES", Type: Size, Unit: "bytes", Example: "CACHEDIR=/l/ssd BYTES=100g",
			Help: "size that the file system has to have"},
	}},
	{Parameter{Name: "STORE", Type: Path, Unset: "the one of `SCR_CACHE_BASE`", Example: "STORE=/l/ssd COUNT=5", Scope: Rank,
		Help: "a directory that can hold datasets; variables in it are those of each rank"}, []Parameter{
		{Name: "COUNT", Type: Int, Unset: "as `SCR_CACHE_SIZE`", Unit: "datasets", Example: "STORE=/l/ssd COUNT=5",
			Help: "most datasets in the store; 0: none, they are written to the prefix directory"},
		{Name: "GROUP", Type: Text, Unset: "that of the node", Example: "STORE=/shared GROUP=WORLD",
			Help: "ranks that share the storage"},
		{Name: "VIEW", Type: Text, Unset: "that of the node", Example: "STORE=/shared VIEW=GLOBAL", Values: []string{"PRIVATE", "GLOBAL"},
			Help: "says the same in another way: `PRIVATE` is `GROUP=NODE`, `GLOBAL` is `GROUP=WORLD`"},
		{Name: "MKDIR", Type: Bool, Unset: "1", Example: "STORE=/l/ssd/anna MKDIR=0",
			Help: "0: the directory has to be there, and is not made"},
		{Name: "ENABLED", Type: Bool, Unset: "1", Example: "STORE=/l/ssd ENABLED=0",
			Help: "0: the store is not used, nor are `CKPT` lines with it"},
		{Name: "FLUSH", Type: Text, Unset: "as `SCR_FLUSH_TYPE`", Example: "STORE=/l/ssd FLUSH=SYNC", Values: flushTypes,
			Help: "who copies datasets of the store with `SCR_FLUSH_ASYNC=1`"},
		{Name: "FETCH", Type: Text, Example: "STORE=/l/ssd FETCH=SYNC",
			Help: "accepted for the sake of files written for SCR, without effect"},
	}},
	{Parameter{Name: "CKPT", Type: Int, Unset: "one, of the parameters", Example: "CKPT=1 INTERVAL=4 TYPE=RS",
		Help: "how certain datasets are protected. One line has to have `INTERVAL=1`. Lines of the system's file give way to a `SCR_COPY_TYPE` other than `FILE` that is set elsewhere"}, []Parameter{
		{Name: "INTERVAL", Type: Int, Unset: "1", Unit: "checkpoints", Example: "CKPT=1 INTERVAL=4", Min: 1,
			Help: "of the lines whose interval divides the number of the checkpoint, the one with the largest counts"},
		{Name: "TYPE", Type: Text, Unset: "as `SCR_COPY_TYPE`", Example: "CKPT=1 TYPE=PARTNER", Values: copyTypes,
			Help: "redundancy scheme: `SINGLE`, `PARTNER`, `XOR` or `RS`"},
		{Name: "STORE", Type: Path, Unset: "as `SCR_CACHE_BASE`", Example: "CKPT=1 STORE=/l/ssd",
			Help: "store that holds the dataset"},
		{Name: "GROUP", Type: Text, Unset: "as `SCR_GROUP`", Example: "CKPT=1 GROUP=POWER",
			Help: "ranks that fail together"},
		{Name: "SET_SIZE", Type: Int, Unset: "as `SCR_SET_SIZE`", Unit: "ranks", Example: "CKPT=1 SET_SIZE=4", Min: 1,
			Help: "least members of a redundancy set"},
		{Name: "SET_FAILURES", Type: Int, Unset: "as `SCR_SET_FAILURES`", Unit: "ranks", Example: "CKPT=1 SET_FAILURES=3", Min: 1,
			Help: "members of a set that can be lost"},
		{Name: "BYPASS", Type: Bool, Unset: "as `SCR_CACHE_BYPASS`", Example: "CKPT=1 BYPASS=1",
			Help: "1: the dataset is written to the prefix directory"},
		{Name: "OUTPUT", Type: Bool, Unset: "0", Example: "CKPT=3 OUTPUT=1",
			Help: "1: the line is for datasets with `SCR_FLAG_OUTPUT`"},
		{Name: "ENABLED", Type: Bool, Unset: "1", Example: "CKPT=1 ENABLED=0",
			Help: "0: the line is not used"},
	}},
}

// Names of syslog(3) that messages can have.
var (
	SyslogFacilities = []string{"LOG_USER", "LOG_DAEMON", "LOG_LOCAL0", "LOG_LOCAL1", "LOG_LOCAL2", "LOG_LOCAL3",
		"LOG_LOCAL4", "LOG_LOCAL5", "LOG_LOCAL6", "LOG_LOCAL7"}
	SyslogLevels = []string{"LOG_ERR", "LOG_WARNING", "LOG_NOTICE", "LOG_INFO", "LOG_DEBUG"}
)

var flushTypes = []string{"SYNC", "PTHREAD", "DAEMON"}

var copyTypes = []string{"SINGLE", "PARTNER", "XOR", "RS"}

func find(list []Parameter, name string) *Parameter {
	i := slices.IndexFunc(list, func(p Parameter) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// findOrText is find, or for a name that is not in the list a parameter that may
// be any text.
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

func jobID(environ Environ) (text, from string) {
	// Of Slurm, its older releases, LSF, PBS and Torque, and Flux.
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
