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
		Help: "most datasets kept in cache"},
	{Name: "SCR_CACHE_BYPASS", Type: Bool, Default: "0",
		Help: "1 has datasets written to the prefix directory instead of the cache"},
	{Name: "SCR_COPY_TYPE", Type: Text, Default: "XOR", Values: copyTypes,
		Help: "redundancy scheme of datasets in cache"},
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
	{Name: "SCR_FETCH", Type: Bool, Default: "1",
		Help: "restart from the prefix directory when the cache holds no checkpoint"},
	{Name: "SCR_FETCH_ON_INIT", Type: Bool, Default: "0",
		Help: "fetch in SCR_Init, for programs that do not call SCR_Have_restart"},
	{Name: "SCR_DISTRIBUTE", Type: Bool, Default: "1",
		Help: "look for checkpoints in cache in SCR_Init, and bring their files to the ranks' nodes"},
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
	{Name: "STORE", ID: Parameter{Name: "STORE", Type: Path},
		Help: "a directory that can hold datasets",
		Fields: []Parameter{
			{Name: "GROUP", Type: Text, Help: "group of ranks that share the storage"},
			{Name: "COUNT", Type: Int, Unit: "datasets", Help: "most datasets kept in it"},
			{Name: "ENABLED", Type: Bool, Help: "0 takes the store out of use"},
			{Name: "MKDIR", Type: Bool, Help: "1 has directories made in it"},
			{Name: "FLUSH", Type: Text, Help: "how datasets are copied from it to the prefix directory"},
			{Name: "FETCH", Type: Text, Help: "how datasets are copied to it from the prefix directory"},
			{Name: "VIEW", Type: Text, Help: "PRIVATE to a node, or GLOBAL", Values: []string{"PRIVATE", "GLOBAL"}},
		}},
	{Name: "CKPT", ID: Parameter{Name: "CKPT", Type: Int},
		Help: "how certain checkpoints are protected",
		Fields: []Parameter{
			{Name: "INTERVAL", Type: Int, Unit: "checkpoints", Min: 1, Help: "used for every n-th checkpoint"},
			{Name: "GROUP", Type: Text, Help: "group of ranks that fail together"},
			{Name: "STORE", Type: Path, Help: "store that holds the dataset"},
			{Name: "TYPE", Type: Text, Values: copyTypes, Help: "redundancy scheme"},
			{Name: "SET_SIZE", Type: Int, Unit: "ranks", Min: 1, Help: "least ranks in a redundancy set"},
			{Name: "SET_FAILURES", Type: Int, Unit: "ranks", Min: 1, Help: "losses in one set that RS survives"},
			{Name: "BYPASS", Type: Bool, Help: "1 writes to the prefix directory instead of the cache"},
			{Name: "OUTPUT", Type: Bool, Help: "1 uses it for datasets that are output"},
			{Name: "ENABLED", Type: Bool, Help: "0 takes the descriptor out of use"},
		}},
}

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
		v.number, ok = parseSize(v.text)
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

// parseSize reads bytes as in 4096, 64k, 1M, 2gb.
func parseSize(text string) (int64, bool) {
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
