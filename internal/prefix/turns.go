package prefix

const tagTurn = 1101

// InTurn calls f on every rank, on at most width at the same time, to limit the load on
// the file system. Rank r calls f when rank r-width has returned from it, with or without
// an error. With width 0 or less all ranks call f at once. InTurn is collective; each
// rank gets the error of its own f.
func (p *Prefix) InTurn(width int, f func() error) error {
	rank := p.Comm.Rank()
	if width <= 0 {
		width = p.Comm.Size()
	}
	var token [0]byte
	if rank >= width {
		p.Comm.Recv(token[:], rank-width, tagTurn)
	}
	err := f()
	if rank < p.Comm.Size()-width {
		p.Comm.Send(token[:], rank+width, tagTurn)
	}
	return err
}
