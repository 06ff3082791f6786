package pace

import (
	"errors"
	"fmt"
	"strings"
)

// Lane names a calendar and whose quotas its writes use.
type Lane struct {
	// Project is the number of the Google project of the OAuth client.
	Project string
	// Calendar is the resolved id of the calendar, never "primary".
	Calendar string
	// User is the Google user ("sub") that the account acts as.
	User string
}

// Validate reports a lane that cannot be paced.
func (l Lane) Validate() error {
	var errs []error
	switch {
	case l.Project == "":
		errs = append(errs, errors.New("the project is empty; name the Google project of the OAuth client"))
	case strings.ContainsAny(l.Project, "{}"):
		// Braces would move the keys to different hash slots.
		errs = append(errs, fmt.Errorf("the project %q has braces; use its number", l.Project))
	}
	if l.Calendar == "" {
		errs = append(errs, errors.New("the calendar is empty; name the calendar that is written to"))
	}
	if l.User == "" {
		errs = append(errs, errors.New("the user is empty; name the Google user whose quota is used"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("lane: %w", err)
	}
	return nil
}

// keys are the four records of the lane in the order of the scripts. The braces put all keys of a
// project into one hash slot of a Redis Cluster.
func (l Lane) keys() []string {
	project := "calferry:{" + l.Project + "}:"
	return []string{
		project + "lane:" + l.Calendar,
		project + "user:" + l.User,
		project + "project",
		project + "usage:" + l.User,
	}
}
