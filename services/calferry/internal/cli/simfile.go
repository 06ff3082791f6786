package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/calferry/calferry/pkg/gcalsim"
)

// saveEvery is how much of what the simulator holds a kill can cost.
const saveEvery = 2 * time.Second

// simFile keeps a simulator's calendars in a file, so that they outlive the process as Google's do.
type simFile struct {
	sim  *gcalsim.Sim
	path string
}

// load brings back what was saved; nothing was, at a first start.
func (f *simFile) load() error {
	in, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("simulator: %w", err)
	}
	defer func() { _ = in.Close() }()
	if err := f.sim.Load(in); err != nil {
		return fmt.Errorf("%s: %w; delete the data directory to start over", f.path, err)
	}
	return nil
}

// run saves whenever something changed, and once more when ctx ends.
func (f *simFile) run(ctx context.Context) error {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	saved := f.sim.Changes()
	for {
		select {
		case <-ctx.Done():
			return f.save()
		case <-tick.C:
		}
		if now := f.sim.Changes(); now != saved {
			if err := f.save(); err != nil {
				return err
			}
			saved = now
		}
	}
}

// save replaces the file in one step: a kill in the middle leaves the old one.
func (f *simFile) save() error {
	tmp, err := os.OpenFile(f.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("simulator: %w", err)
	}
	if err := errors.Join(f.sim.Save(tmp), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), f.path)
}
