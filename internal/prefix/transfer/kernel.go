package transfer

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// throughKernel has the kernel copy the bytes of a file up to offset end, as far as possible. The caller
// copies the remaining bytes itself, and so meets the same error, if there was one.
func (p *copying) throughKernel(end int64) error {
	const piece = 8 << 20
	for _, by := range []func(out, in *os.File, at int64, n int) (int, error){copyRange, sendFile} {
		for p.size < end {
			n, err := by(p.out.f, p.in, p.size, int(min(piece, end-p.size)))
			if n > 0 {
				p.out.moved(int64(n))
				if err := p.done(n); err != nil {
					return err
				}
			}
			if err == unix.EINTR || err == unix.EAGAIN {
				continue
			}
			if err != nil || n <= 0 {
				break
			}
		}
	}
	return nil
}

// copyRange has the file system copy, if it can; it may share the bytes instead.
func copyRange(out, in *os.File, at int64, n int) (int, error) {
	from, to := at, at
	return unix.CopyFileRange(int(in.Fd()), &from, int(out.Fd()), &to, n, 0)
}

// sendFile has the kernel copy from the page cache of one file to the other.
func sendFile(out, in *os.File, at int64, n int) (int, error) {
	if _, err := out.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	return unix.Sendfile(int(out.Fd()), int(in.Fd()), &at, n)
}
