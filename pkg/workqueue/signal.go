package workqueue

// signals let tests wait for what they cannot see from outside. The zero value does nothing.
type signals struct {
	asked    signal[string]  // a pull request went out on this inbox
	beat     signal[string]  // a heartbeat of this key was done
	ended    signal[turnEnd] // a turn was answered
	gaveBack signal[string]  // a message of this subject came when nobody waited for it
	parked   signal[string]  // a long delay of this key waits for the next second
	replaced signal[uint64]  // the server told that this sequence is gone
}

type turnEnd struct {
	key   string
	seq   uint64
	ended string
}

type signal[T any] struct{ ch chan T }

func (s *signal[T]) send(v T) {
	if s.ch == nil {
		return
	}
	select {
	case s.ch <- v:
	default: // nobody reads so many
	}
}
