package prefix

import "errors"

const tagTurn = 1101

// InTurn runs f on every rank, on at most width at the same time, to limit the load on
// the file system. Ranks run in order: each when the one width before it has finished,
// also with an error. With width 0 all run at once. It is collective; the result is the
// rank's own.
func (p *Prefix) InTurn(width int, f func() error) error {
	rank := p.Comm.Rank()
	if width <= 0 {
		width = p.Comm.Size()
	}
	var token [0]byte
	if rank >= width {
		if _, err := p.Comm.Recv(token[:], rank-width, tagTurn); err != nil {
			return err
		}
	}
	err := f()
	if rank < p.Comm.Size()-width {
		err = errors.Join(err, p.Comm.Send(token[:], rank+width, tagTurn))
	}
	return err
}
