// Package compress makes files smaller when they are copied to the prefix directory,
// and restores them when they are copied back. Its streams are those that the zstd
// command reads and writes.
//
// A stream takes a fixed amount of memory, whatever is in it, and no goroutine: a node
// has as many of them as ranks.
package compress

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Zstd is the name of the one method there is.
const Zstd = "zstd"

// Method is a way to compress. The zero value does not.
type Method struct {
	Name  string
	Level int // 1 to 22, as of the zstd command
}

const (
	defaultLevel, maxLevel = 3, 22

	// window is the largest distance of a repetition; most of the memory of both
	// sides is for it.
	window = 1 << 20
	// maxWindow is the largest that is accepted, as by default of the zstd command.
	maxWindow = 8 << 20
)

// Accepted describes the texts that Parse accepts.
const Accepted = "nothing, or zstd with an optional level from 1 (fast) to 22 (small), as in zstd or zstd:9"

// Parse reads a method as users write it.
func Parse(text string) (Method, error) {
	name, level, leveled := strings.Cut(strings.TrimSpace(text), ":")
	m := Method{strings.ToLower(name), defaultLevel}
	switch {
	case text == "":
		return Method{}, nil
	case m.Name != Zstd:
		return Method{}, fmt.Errorf("want %s", Accepted)
	case leveled:
		var err error
		if m.Level, err = strconv.Atoi(level); err != nil || m.Level < 1 || m.Level > maxLevel {
			return Method{}, fmt.Errorf("want %s", Accepted)
		}
	}
	return m, nil
}

// String is the method as Parse reads it.
func (m Method) String() string {
	if !m.On() {
		return ""
	}
	return fmt.Sprintf("%s:%d", m.Name, m.Level)
}

// On reports whether m compresses.
func (m Method) On() bool { return m.Name != "" }

// Writer compresses what is written to it.
type Writer struct{ z *zstd.Encoder }

// NewWriter returns a writer, for which Reset sets the destination.
func (m Method) NewWriter() (*Writer, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(m.Level)), zstd.WithWindowSize(window),
		zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true))
	return &Writer{z}, err
}

// Reset starts a new stream, written to to.
func (w *Writer) Reset(to io.Writer) { w.z.Reset(to) }

func (w *Writer) Write(p []byte) (int, error) { return w.z.Write(p) }

// Close ends the stream that Reset started.
func (w *Writer) Close() error { return w.z.Close() }

// Size is the compressed size of a piece that is compressed alone.
func (w *Writer) Size(piece []byte) int { return len(w.z.EncodeAll(piece, nil)) }

// Reader decompresses.
type Reader struct{ z *zstd.Decoder }

// NewReader returns a reader of streams compressed by the method name, for which
// Reset sets the source.
func NewReader(name string) (*Reader, error) {
	if name != Zstd {
		return nil, fmt.Errorf("compressed by %q, which this version of goscr does not know", name)
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return &Reader{z}, err
}

// Reset starts to read a new stream from from.
func (r *Reader) Reset(from io.Reader) error { return r.z.Reset(from) }

// Read returns an error if the stream was cut short or changed.
func (r *Reader) Read(p []byte) (int, error) { return r.z.Read(p) }
