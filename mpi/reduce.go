package mpi

// AllreduceOne returns the reduction of one number of every rank. It is
// collective.
func AllreduceOne[T int | int64](c Comm, value T, op Op) T {
	values := []int64{int64(value)}
	c.Allreduce(values, op)
	return T(values[0])
}

// Any reports whether something holds on any rank. It is collective.
func Any(c Comm, holds bool) bool {
	value := 0
	if holds {
		value = 1
	}
	return AllreduceOne(c, value, Max) == 1
}

// All reports whether something holds on every rank. It is collective.
func All(c Comm, holds bool) bool { return !Any(c, !holds) }

// OnRoot runs f on rank 0 and agrees on its result. It is collective.
func OnRoot(c Comm, f func() error) error {
	var err error
	if c.Rank() == 0 {
		err = f()
	}
	return Agree(c, err)
}

// FromRoot runs f on rank 0, agrees on its error, and returns its number on all ranks. It
// is collective, and costs one reduction if there is no error.
func FromRoot(c Comm, f func() (int, error)) (int, error) {
	n, err := 0, error(nil)
	if c.Rank() == 0 {
		n, err = f()
	}
	sum, err := AgreeSumOne(c, err, int64(n))
	return int(sum), err
}

// AgreeMaxOne is Agree, and returns the largest of one number of every rank, by the same
// reduction. It is collective.
func AgreeMaxOne(c Comm, err error, value int64) (int64, error) {
	values := []int64{value}
	err = AgreeMax(c, err, values)
	return values[0], err
}

// AgreeSumOne is Agree, and returns the sum of one number of every rank, by the same
// reduction. It is collective.
func AgreeSumOne(c Comm, err error, value int64) (int64, error) {
	values := []int64{value}
	err = AgreeSum(c, err, values)
	return values[0], err
}

// ExscanOne returns the reduction of one number of every lower rank, 0 on rank 0.
// It is collective.
func ExscanOne[T int | int64](c Comm, value T, op Op) T {
	values := []int64{int64(value)}
	c.Exscan(values, op)
	return T(values[0])
}
