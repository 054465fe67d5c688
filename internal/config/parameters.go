package config

import (
	"fmt"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

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

// Parameter describes one parameter.
type Parameter struct {
	Name    string
	Type    Type
	Default string // as a user would write it: $VAR is expanded
	Unit    string // of a number without a suffix
	Help    string // one line
	Scope   Scope
	Min     int64    // least Int, Size or Seconds that is accepted
	Values  []string // all that a Text may be, in upper case; nil accepts any

	// valid says what is wrong with a Text that has a form of its own.
	valid func(text string) error

	// derive gives the value from the system a parameter has where nobody set
	// it, and says where that comes from. Default follows if it gives "".
	derive func(environ Environ) (text, from string)
}

// Parameters is every parameter there is, and the only place of its default.
var Parameters = []Parameter{
	{Name: "SCR_ENABLE", Type: Bool, Default: "1",
		Help: "0 turns goscr off: every call returns an error at once"},
	{Name: "SCR_DEBUG", Type: Int, Default: "0",
		Help: "messages on stderr: 0 errors only, 1 what is done, 2 details"},
	{Name: "SCR_PREFIX", Type: Path, Default: "$PWD",
		Help: "directory on the parallel file system that checkpoints are flushed to and fetched from"},
	{Name: "SCR_CONF_FILE", Type: Path, Default: "$SCR_PREFIX/.scrconf",
		Help: "configuration file of the user"},
	{Name: "SCR_USER_NAME", Type: Name, derive: userName,
		Help: "user, as it stands in the paths of cache and control directory; unset: the login name"},
	{Name: "SCR_JOB_ID", Type: Name, Default: "defjobid", derive: jobID,
		Help: "id of the allocation, as it stands in the same paths; unset: that of the resource manager"},
	{Name: "SCR_JOB_NAME", Type: Text,
		Help: "name of the job, recorded with each dataset"},
	{Name: "SCR_CLUSTER_NAME", Type: Text,
		Help: "name of the cluster, recorded with each dataset"},
	{Name: "SCR_NODE_NAME", Type: Text, Scope: Rank, derive: hostName,
		Help: "name of the node the rank runs on; unset: the host name"},
	{Name: "SCR_CNTL_BASE", Type: Path, Default: "/dev/shm", Scope: Rank,
		Help: "node-local directory below which control files are kept"},
	{Name: "SCR_CACHE_BASE", Type: Path, Default: "/dev/shm", Scope: Rank,
		Help: "node-local directory below which datasets are cached"},
	{Name: "SCR_CACHE_SIZE", Type: Int, Default: "2", Unit: "datasets",
		Help: "most datasets kept in cache; 0 has them written to the prefix directory, as SCR_CACHE_BYPASS=1"},
	{Name: "SCR_CACHE_BYPASS", Type: Bool, Default: "0",
		Help: "1 has datasets written to the prefix directory instead of the cache, where several ranks may write one file"},
	{Name: "SCR_CACHE_PURGE", Type: Bool, Default: "0",
		Help: "1 deletes all datasets from the cache in SCR_Init"},
	{Name: "SCR_COPY_TYPE", Type: Text, Default: "XOR", Values: append(slices.Clone(copyTypes), "FILE"),
		Help: "redundancy scheme of datasets in cache; FILE: what CKPT= lines say"},
	{Name: "SCR_GROUP", Type: Text, Default: "NODE",
		Help: "group of ranks that fail together, which redundancy has to survive the loss of"},
	{Name: "SCR_SET_SIZE", Type: Int, Default: "8", Unit: "ranks", Min: 1,
		Help: "least ranks in a redundancy set where there are enough"},
	{Name: "SCR_SET_FAILURES", Type: Int, Default: "0", Unit: "ranks",
		Help: "losses in one redundancy set that PARTNER and RS bear; 0: 1 for PARTNER, 2 for RS"},
	{Name: "SCR_HOP_DISTANCE", Type: Int, Default: "1", Unit: "groups", Min: 1,
		Help: "neighbours in a redundancy set are this many failure groups apart"},
	{Name: "SCR_FLUSH", Type: Int, Default: "10", Unit: "checkpoints",
		Help: "flush every n-th checkpoint to the prefix directory; 0 never"},
	{Name: "SCR_FLUSH_COMPRESS", Type: Text, valid: compression,
		Help: "zstd, or zstd:1 (fast) to zstd:22 (small), compresses checkpoints on their way to the prefix directory; unset: as they are"},
	{Name: "SCR_FETCH", Type: Bool, Default: "1",
		Help: "restart from the prefix directory when the cache holds no checkpoint"},
	{Name: "SCR_FLUSH_WIDTH", Type: Int, Default: "256", Unit: "ranks", Min: 1,
		Help: "most ranks that copy files to the prefix directory at a time"},
	{Name: "SCR_FETCH_WIDTH", Type: Int, Default: "256", Unit: "ranks", Min: 1,
		Help: "most ranks that copy files from the prefix directory at a time"},
	{Name: "SCR_FLUSH_ASYNC", Type: Bool, Default: "0",
		Help: "1 flushes while the program goes on; SCR_Finalize waits for what is under way"},
	{Name: "SCR_FLUSH_TYPE", Type: Text, Default: "PTHREAD", Values: slices.Clone(flushTypes),
		Help: "who copies with SCR_FLUSH_ASYNC=1. PTHREAD: a thread of each process; DAEMON: scr_transfer, a process on each node, which goes on when the program dies; SYNC: the processes, and the program waits"},
	{Name: "SCR_FLUSH_POSTSTAGE", Type: Bool, Default: "0",
		Help: "1, with SCR_FLUSH_TYPE=DAEMON: SCR_Finalize does not wait, and scr_postrun or scr_index --build complete what is under way"},
	{Name: "SCR_FLUSH_ASYNC_BW", Type: Size, Default: "0", Unit: "bytes a second",
		Help: "most that a node copies with SCR_FLUSH_ASYNC=1; 0: no limit"},
	{Name: "SCR_FLUSH_ASYNC_PERCENT", Type: Float, Default: "0", Unit: "percent",
		Help: "most that the copy takes of one processor of a node with SCR_FLUSH_ASYNC=1; 0: no limit"},
	{Name: "SCR_CRC_ON_FLUSH", Type: Bool, Default: "1",
		Help: "0 flushes and fetches files without comparing their checksums"},
	{Name: "SCR_CRC_ON_COPY", Type: Bool, Default: "1",
		Help: "checksums in the cache; always on, since redundancy cannot be trusted without: 0 is answered with a warning"},
	{Name: "SCR_CRC_ON_DELETE", Type: Bool, Default: "0",
		Help: "1 reads files before they leave the cache to make room, and says which are not what was written"},
	{Name: "SCR_FETCH_BYPASS", Type: Bool, Default: "0",
		Help: "1 has checkpoints read where they are in the prefix directory, any file by any rank, and not copied to the cache"},
	{Name: "SCR_FETCH_ON_INIT", Type: Bool, Default: "0",
		Help: "fetch in SCR_Init, for programs that do not call SCR_Have_restart"},
	{Name: "SCR_DISTRIBUTE", Type: Bool, Default: "1",
		Help: "look for checkpoints in cache in SCR_Init, and bring their files to the ranks' nodes; 0 leaves them where they are, unused"},
	{Name: "SCR_FLUSH_ON_RESTART", Type: Bool, Default: "0",
		Help: "1 flushes what is in the cache in SCR_Init, for programs that read their checkpoints from the prefix directory"},
	{Name: "SCR_GLOBAL_RESTART", Type: Bool, Default: "0",
		Help: "1 flushes what is in the cache in SCR_Init, and restarts from the prefix directory, where any rank can read any file"},
	{Name: "SCR_CURRENT", Type: Text,
		Help: "name of the checkpoint to restart from, in place of the newest"},
	{Name: "SCR_DROP_AFTER_CURRENT", Type: Bool, Default: "0",
		Help: "1 takes datasets out of the index that are newer than one that SCR_Current or SCR_CURRENT names; their files stay"},
	{Name: "SCR_PREFIX_SIZE", Type: Int, Default: "0", Unit: "checkpoints",
		Help: "most checkpoints kept in the prefix directory, the oldest are deleted; outputs stay; 0 keeps all"},
	{Name: "SCR_PREFIX_PURGE", Type: Bool, Default: "0",
		Help: "1 deletes all datasets from the prefix directory in SCR_Init, outputs too"},
	{Name: "SCR_COPY_METADATA", Type: Bool, Default: "1",
		Help: "files are copied to and from the prefix directory with their mode, owner and times"},
	{Name: "SCR_CHECKPOINT_INTERVAL", Type: Int, Default: "0", Unit: "calls",
		Help: "SCR_Need_checkpoint says yes at every n-th call; 0 never"},
	{Name: "SCR_CHECKPOINT_SECONDS", Type: Seconds, Default: "0", Unit: "seconds",
		Help: "... and when the last checkpoint ended so long ago; 0 never"},
	{Name: "SCR_CHECKPOINT_OVERHEAD", Type: Float, Default: "0", Unit: "percent",
		Help: "... and whenever checkpoints take no more than this part of the time; 0 never"},
	{Name: "SCR_MTBF_SECONDS", Type: Seconds, Default: "0", Unit: "seconds",
		Help: "mean time between failures of the job, from which the best interval follows where none of these three is set; 0: as three or more runs that failed tell"},
	{Name: "SCR_MPI_BUF_SIZE", Type: Size, Default: "256k", Unit: "bytes", Min: 1,
		Help: "one piece of a file in the exchange of redundancy data; 64 to 16m are possible"},
	{Name: "SCR_FILE_BUF_SIZE", Type: Size, Default: "1m", Unit: "bytes", Min: 1,
		Help: "one piece of a file in a copy to or from the prefix directory; 64 to 16m are possible"},
	{Name: "SCR_HALT_SECONDS", Type: Seconds, Default: "0", Unit: "seconds",
		Help: "tell the program to stop when less than this is left of the allocation; 0 never"},
	{Name: "SCR_HALT_EXIT", Type: Bool, Default: "0",
		Help: "1 ends the job in SCR_Init or after a checkpoint when it is to halt"},
	{Name: "SCR_END_TIME", Type: Int, Default: "0", Unit: "seconds since 1970",
		Help: "when the allocation ends; 0: as the resource manager says"},
	{Name: "SCR_RESOURCE_MANAGER", Type: Text, Default: "AUTO", Values: []string{"AUTO", "SLURM", "FLUX", "LSF", "PBS", "ALPS", "NONE"},
		Help: "whose allocation the commands run in; AUTO: as the environment tells"},
	{Name: "SCR_NODELIST", Type: Text,
		Help: "nodes of the allocation, such as atlas[3,5-7]; unset: as the resource manager says"},
	{Name: "SCR_HOST_FILE", Type: Text,
		Help: "file with the names of the nodes, one a line, where there is no resource manager; unset: this node alone"},
	{Name: "SCR_EXCLUDE_NODES", Type: Text,
		Help: "nodes that scr_run must not use"},
	{Name: "SCR_MIN_NODES", Type: Int, Default: "0", Unit: "nodes",
		Help: "nodes the program needs; 0: as many as the last run used, all for the first"},
	{Name: "SCR_RUNS", Type: Int, Default: "-1", Unit: "runs", Min: -1,
		Help: "most times that scr_run starts the program; -1 as often as it takes"},
	{Name: "SCR_WATCHDOG", Type: Bool, Default: "0",
		Help: "1 has scr_run end a run that completes no checkpoint for too long"},
	{Name: "SCR_WATCHDOG_TIMEOUT", Type: Seconds, Default: "0", Unit: "seconds",
		Help: "what too long is; 0: as the checkpoints of the run tell"},
	{Name: "SCR_WATCHDOG_TIMEOUT_PFS", Type: Seconds, Default: "0", Unit: "seconds",
		Help: "what too long is while a dataset is flushed; 0: the same"},
	{Name: "SCR_LAUNCH_TIMEOUT", Type: Seconds, Default: "0", Unit: "seconds",
		Help: "scr_run ends a run that has not come to SCR_Init in this time; 0: never the first, later ones if there is a watchdog"},
	{Name: "SCR_REMOTE_SHELL", Type: Text, Default: "AUTO", Values: []string{"AUTO", "SRUN", "PDSH", "SSH"},
		Help: "how the commands reach other nodes; AUTO: srun under Slurm, else pdsh, else ssh"},
	{Name: "SCR_LOG_ENABLE", Type: Bool, Default: "0",
		Help: "1 logs what happens to checkpoints, in each place that SCR_LOG_*_ENABLE says"},
	{Name: "SCR_LOG_TXT_ENABLE", Type: Bool, Default: "1",
		Help: "log to the file .scr/log in the prefix directory"},
	{Name: "SCR_LOG_SYSLOG_ENABLE", Type: Bool, Default: "1",
		Help: "log to syslog"},
	{Name: "SCR_LOG_SYSLOG_PREFIX", Type: Text, Default: "SCR",
		Help: "tag of messages to syslog"},
	{Name: "SCR_LOG_SYSLOG_FACILITY", Type: Text, Default: "LOG_LOCAL7", Values: SyslogFacilities,
		Help: "facility of messages to syslog"},
	{Name: "SCR_LOG_SYSLOG_LEVEL", Type: Text, Default: "LOG_INFO", Values: SyslogLevels,
		Help: "level of messages to syslog"},
	{Name: "SCR_LOG_SYSLOG_SOCKET", Type: Text,
		Help: "socket of syslog; unset: the system's"},
	{Name: "SCR_LOG_DB_ENABLE", Type: Bool, Default: "0",
		Help: "log to a database"},
	{Name: "SCR_LOG_DB_DEBUG", Type: Bool, Default: "0",
		Help: "show the statements that the database is sent"},
	{Name: "SCR_LOG_DB_HOST", Type: Text,
		Help: "MySQL or MariaDB server, as HOST, HOST:PORT or the path of its socket; unset: SQLite in .scr/log.sqlite of the prefix directory"},
	{Name: "SCR_LOG_DB_USER", Type: Text, derive: userName,
		Help: "user of the server; unset: the login name"},
	{Name: "SCR_LOG_DB_PASS", Type: Text,
		Help: "password of that user"},
	{Name: "SCR_LOG_DB_NAME", Type: Text, Default: "scrlog",
		Help: "database on the server"},
}

// ItemKind describes the items of one kind, of which there may be any number,
// each a line KIND=id FIELD=value … of a configuration file.
type ItemKind struct {
	Name   string
	ID     Parameter   // what the id of an item may be
	Fields []Parameter // nil accepts any field
	Help   string
}

// ItemKinds is every kind of item there is. Fields have no default: what an
// item does not say is as the parameters say.
var ItemKinds = []ItemKind{
	{Name: "GROUPS", ID: Parameter{Name: "GROUPS", Type: Text},
		Help: "the failure groups a node is in: a field for each kind of group, its value is the name of the group"},
	{Name: "CNTLDIR", ID: Parameter{Name: "CNTLDIR", Type: Path},
		Help:   "room there has to be for control files on each node that is used",
		Fields: []Parameter{{Name: "BYTES", Type: Size, Unit: "bytes", Help: "size of the file system"}}},
	{Name: "CACHEDIR", ID: Parameter{Name: "CACHEDIR", Type: Path},
		Help:   "room there has to be for datasets on each node that is used",
		Fields: []Parameter{{Name: "BYTES", Type: Size, Unit: "bytes", Help: "size of the file system"}}},
	{Name: "STORE", ID: Parameter{Name: "STORE", Type: Path, Scope: Rank},
		Help: "a directory that can hold datasets",
		Fields: []Parameter{
			{Name: "GROUP", Type: Text, Help: "group of ranks that share the storage"},
			{Name: "COUNT", Type: Int, Unit: "datasets", Help: "most datasets kept in it; 0: none, they are written to the prefix directory"},
			{Name: "ENABLED", Type: Bool, Help: "0 takes the store out of use"},
			{Name: "MKDIR", Type: Bool, Help: "0: the directory has to be there, and is not made"},
			{Name: "FLUSH", Type: Text, Values: slices.Clone(flushTypes), Help: "who copies datasets from it to the prefix directory with SCR_FLUSH_ASYNC=1, as SCR_FLUSH_TYPE"},
			{Name: "FETCH", Type: Text, Help: "how datasets are copied to it from the prefix directory; all is SYNC so far"},
			{Name: "VIEW", Type: Text, Help: "PRIVATE to a node, or GLOBAL, the same for all ranks; stands for a GROUP of NODE or WORLD", Values: []string{"PRIVATE", "GLOBAL"}},
		}},
	{Name: "CKPT", ID: Parameter{Name: "CKPT", Type: Int},
		Help: "how certain checkpoints are protected",
		Fields: []Parameter{
			{Name: "INTERVAL", Type: Int, Unit: "checkpoints", Min: 1, Help: "used for every n-th checkpoint"},
			{Name: "GROUP", Type: Text, Help: "group of ranks that fail together"},
			{Name: "STORE", Type: Path, Help: "store that holds the dataset"},
			{Name: "TYPE", Type: Text, Values: copyTypes, Help: "redundancy scheme"},
			{Name: "SET_SIZE", Type: Int, Unit: "ranks", Min: 1, Help: "least ranks in a redundancy set"},
			{Name: "SET_FAILURES", Type: Int, Unit: "ranks", Min: 1, Help: "losses in one set that PARTNER and RS bear"},
			{Name: "BYPASS", Type: Bool, Help: "1 writes to the prefix directory instead of the cache"},
			{Name: "OUTPUT", Type: Bool, Help: "1 uses it for datasets that are output"},
			{Name: "ENABLED", Type: Bool, Help: "0 takes the descriptor out of use"},
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

func findKind(name string) *ItemKind {
	i := slices.IndexFunc(ItemKinds, func(k ItemKind) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return &ItemKinds[i]
}

// value is what a parameter was found to be.
type value struct {
	text   string  // as written, except that a Path is absolute and one of Values in upper case
	number int64   // Int; Bool as 0 or 1; bytes of a Size; nanoseconds of Seconds
	float  float64 // Float
	source Source
}

// plain is the value as code that reads items expects it: whole numbers
// without a suffix.
func (p *Parameter) plain(v value) string {
	switch p.Type {
	case Int, Bool, Size:
		return strconv.FormatInt(v.number, 10)
	}
	return v.text
}

// parse makes a value of text. Its error says what is accepted.
func (p *Parameter) parse(text string) (value, error) {
	v := value{text: text}
	if p.Type != Text {
		v.text = strings.TrimSpace(text)
	}
	ok := true
	switch p.Type {
	case Text:
		if p.Values != nil {
			v.text = strings.ToUpper(text)
			ok = slices.Contains(p.Values, v.text)
		}
		if p.valid != nil {
			return v, p.valid(text)
		}
	case Name:
		ok = v.text != "" && v.text != "." && v.text != ".." && !strings.ContainsAny(v.text, "/\x00")
	case Path:
		var err error
		if v.text, err = filepath.Abs(v.text); err != nil {
			return v, fmt.Errorf("cannot be made absolute: %w", err)
		}
	case Int:
		n, err := strconv.ParseInt(v.text, 10, strconv.IntSize)
		v.number, ok = n, err == nil && n >= p.Min
	case Bool:
		v.number, ok = parseBool(v.text)
	case Size:
		v.number, ok = ParseSize(v.text)
		ok = ok && v.number >= p.Min
	case Float:
		f, err := strconv.ParseFloat(v.text, 64)
		v.float, ok = f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
	case Seconds:
		v.number, ok = parseSeconds(v.text)
		ok = ok && v.number >= p.Min*int64(time.Second)
	}
	if !ok {
		return v, fmt.Errorf("want %s", p.accepts())
	}
	return v, nil
}

// accepts says in words what parse takes.
func (p *Parameter) accepts() string {
	switch p.Type {
	case Name:
		return "a name that can stand in a path: not empty, without '/', and neither . nor .."
	case Int:
		return fmt.Sprintf("a whole number, at least %d", p.Min)
	case Bool:
		return "0 or 1 (or no, yes, false, true)"
	case Size:
		return fmt.Sprintf("a number of bytes, at least %d, with an optional suffix k, m, g or t", p.Min)
	case Float:
		return "a decimal number"
	case Seconds:
		return fmt.Sprintf("a number of seconds, at least %d", p.Min)
	}
	return "one of " + strings.Join(p.Values, ", ")
}

func parseBool(text string) (int64, bool) {
	switch strings.ToLower(text) {
	case "0", "no", "false":
		return 0, true
	case "1", "yes", "true":
		return 1, true
	}
	return 0, false
}

// ParseSize reads bytes as in 4096, 64k, 1M, 2gb.
func ParseSize(text string) (int64, bool) {
	digits := strings.ToLower(text)
	digits = strings.TrimSuffix(digits, "b")
	shift := 0
	if n := len(digits); n > 0 {
		if i := strings.IndexByte("kmgt", digits[n-1]); i >= 0 {
			digits, shift = digits[:n-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > math.MaxInt64>>shift {
		return 0, false
	}
	return int64(n) << shift, true
}

func parseSeconds(text string) (int64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	// Not an inclusive bound: as a float the largest int64 is one too large.
	if err != nil || !(f*1e9 > math.MinInt64 && f*1e9 < math.MaxInt64) {
		return 0, false
	}
	return int64(math.Round(f * 1e9)), true
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
