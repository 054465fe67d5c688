package config

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Level is one of the places a value can come from. Higher levels override lower ones.
type Level int

// The levels.
const (
	Default Level = iota
	System
	Program
	User
	Environment
)

var levelNames = [...]string{"default", "system file", "program", "user file", "environment"}

func (l Level) String() string { return levelNames[l] }

// Source is where a value came from.
type Source struct {
	Level Level  `hash:"LEVEL"`
	Where string `hash:"WHERE"` // file:line, or the source of a derived default; else ""
}

func (s Source) String() string {
	if s.Where == "" {
		return s.Level.String()
	}
	return s.Level.String() + ", " + s.Where
}

// value is the value that was found for a parameter.
type value struct {
	text   string  // as written, except that a Path is absolute, a Text with Values is in upper case, and a BoolOrAuto is 0, 1 or AUTO
	number int64   // of an Int; 0 or 1 of a Bool; bytes of a Size; nanoseconds of Seconds
	float  float64 // of a Float
	source Source
}

// plain returns the value in the form that the hash of items has: numbers without a suffix,
// 0 or 1 for a Bool.
func (p *Parameter) plain(v value) string {
	switch p.Type {
	case Int, Bool, Size:
		return strconv.FormatInt(v.number, 10)
	}
	return v.text
}

// check reads text into a value with this source. Its error names the parameter and the
// source.
func (p *Parameter) check(text string, source Source) (value, error) {
	v, err := p.read(text)
	if err != nil {
		return v, invalid(p.Name, text, source, err)
	}
	v.source = source
	return v, nil
}

// everywhere returns the value of a parameter that nothing sets, if it is the same on all
// ranks without a message: it depends neither on the environment nor on the working directory.
func (p *Parameter) everywhere() (v value, known bool) {
	if strings.ContainsAny(p.Default, "$\\") || p.Type == Path && p.Default != "" {
		return value{}, false
	}
	if p.Default == "" && p.Type == Text {
		return value{}, true
	}
	v, err := p.check(p.Default, Source{})
	return v, err == nil
}

func invalid(name, text string, source Source, err error) error {
	return fmt.Errorf("%s=%q (%v): %w", name, text, source, err)
}

// read reads text into a value. Its error says what the parameter accepts.
func (p *Parameter) read(text string) (value, error) {
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
			return v, fmt.Errorf("cannot make the path absolute: %w", err)
		}
	case Int:
		n, err := strconv.ParseInt(v.text, 10, strconv.IntSize)
		v.number = n
		ok = err == nil && p.atLeast(&v.number, p.Min)
	case Bool:
		v.number, ok = parseBool(v.text)
	case BoolOrAuto:
		if v.text = strings.ToUpper(v.text); v.text != "AUTO" {
			v.number, ok = parseBool(v.text)
			v.text = strconv.FormatInt(v.number, 10)
		}
	case Size:
		digits, negative := strings.CutPrefix(v.text, "-")
		v.number, ok = ParseSize(digits)
		if negative {
			v.number = -v.number
		}
		ok = ok && p.atLeast(&v.number, p.Min)
	case Float:
		f, err := strconv.ParseFloat(v.text, 64)
		v.float, ok = f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
	case Seconds:
		v.number, ok = parseSeconds(v.text)
		ok = ok && p.atLeast(&v.number, p.Min*int64(time.Second))
	}
	if !ok {
		return v, fmt.Errorf("the value must be %s", p.accepts())
	}
	return v, nil
}

// atLeast reports whether n is at least least. A negative one becomes 0 where that turns something off: SCR takes it so, too.
func (p *Parameter) atLeast(n *int64, least int64) bool {
	if p.Off {
		*n = max(*n, 0)
	}
	return *n >= least
}

// accepts describes the texts that read accepts.
func (p *Parameter) accepts() string {
	least := fmt.Sprintf(", at least %d", p.Min)
	if p.Off {
		least = ""
	}
	switch p.Type {
	case Name:
		return "a name that can stand in a path: not empty, without '/', and neither . nor .."
	case Int:
		return "a whole number" + least
	case Bool:
		return "0 or 1 (or no, yes, false, true; any other number is 1)"
	case BoolOrAuto:
		return "0, 1 or AUTO (or no, yes, false, true; any other number is 1)"
	case Size:
		return "a number of bytes" + least + ", with an optional suffix k, m, g, t, p or e"
	case Float:
		return "a decimal number"
	case Seconds:
		return "a number of seconds" + least
	}
	return "one of " + strings.Join(p.Values, ", ")
}

// IsYes reports whether the text of a Bool says yes.
func IsYes(text string) bool {
	n, _ := parseBool(text)
	return n != 0
}

func parseBool(text string) (int64, bool) {
	switch strings.ToLower(text) {
	case "no", "false":
		return 0, true
	case "yes", "true":
		return 1, true
	}
	n, err := strconv.ParseInt(text, 10, strconv.IntSize) // as in SCR, in which it is a number
	if n != 0 {
		n = 1
	}
	return n, err == nil
}

// ParseSize reads a number of bytes, such as 4096, 64k, 1M, 1.5g or 2gb. Suffixes are powers
// of 1024.
func ParseSize(text string) (int64, bool) {
	digits := strings.ToLower(text)
	digits = strings.TrimSuffix(digits, "b")
	shift := 0
	if n := len(digits); n > 0 {
		if i := strings.IndexByte("kmgtpe", digits[n-1]); i >= 0 {
			digits, shift = digits[:n-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err == nil {
		return int64(n) << shift, n <= math.MaxInt64>>shift
	}
	if strings.Trim(digits, "0123456789.") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(digits, 64)
	f = math.Ldexp(f, shift)
	if err != nil || !(f < math.MaxInt64) {
		return 0, false
	}
	return int64(f), true
}

func parseSeconds(text string) (int64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	// The bound must not be inclusive: rounded to a float64, the largest int64 grows by one.
	if err != nil || !(f*1e9 > math.MinInt64 && f*1e9 < math.MaxInt64) {
		return 0, false
	}
	return int64(math.Round(f * 1e9)), true
}

// store sets a field of Values or of an item. field is a pointer to it.
func (v value) store(field any) {
	switch f := field.(type) {
	case *string:
		*f = v.text
	case *int:
		*f = int(v.number)
	case *int64:
		*f = v.number
	case *bool:
		*f = v.number != 0
	case *float64:
		*f = v.float
	case *time.Duration:
		*f = time.Duration(v.number)
	case interface{ store(value) }:
		f.store(v)
	}
}
