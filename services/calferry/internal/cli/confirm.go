package cli

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
)

// errDeclined ends a command that a person did not want after all.
var errDeclined = errors.New("nothing was changed")

// confirm asks a person on a terminal, unless yes was given already. Elsewhere it wants --yes.
func (a *App) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !a.Terminal || a.Stdin == nil {
		return fmt.Errorf("%s Nothing was changed: repeat it with --yes", question)
	}
	_, _ = fmt.Fprintf(a.Stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(a.Stdin).ReadString('\n') // its end is a no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}
