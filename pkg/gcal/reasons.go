package gcal

import "strings"

// verdict is what a machine-readable reason means, whatever status it comes with.
type verdict struct {
	class Class
	scope Scope
}

// reasons holds the reasons of both envelopes: errors[].reason in camel case, details[].reason in upper
// case. "forbidden" is not here: it says too little by itself, see Calendar.forbidden.
var reasons = map[string]verdict{
	"rateLimitExceeded":     {Throttled, ""}, // whose limit it is stands elsewhere in the answer
	"RATE_LIMIT_EXCEEDED":   {Throttled, ""},
	"userRateLimitExceeded": {Throttled, ScopeUser},
	"quotaExceeded":         {UsageLimited, ScopeUsage},

	// A call without credentials met a limit for calls without credentials.
	"dailyLimitExceededUnreg":    {Operator, ""},
	"rateLimitExceededUnreg":     {Operator, ""},
	"userRateLimitExceededUnreg": {Operator, ""},

	"accessNotConfigured":             {Operator, ""},
	"SERVICE_DISABLED":                {Operator, ""},
	"BILLING_DISABLED":                {Operator, ""},
	"CONSUMER_INVALID":                {Operator, ""},
	"CONSUMER_SUSPENDED":              {Operator, ""},
	"API_KEY_INVALID":                 {Operator, ""},
	"CREDENTIALS_MISSING":             {Operator, ""},
	"USER_PROJECT_DENIED":             {Operator, ""},
	"ACCESS_TOKEN_EXPIRED":            {AuthStale, ""},
	"authError":                       {AuthStale, ""},
	"insufficientPermissions":         {AuthRevoked, ""},
	"forbiddenForNonOrganizer":        {EventRefused, ""},
	"requiredAccessLevel":             {CalendarReadOnly, ""},
	"duplicate":                       {Conflict, ""},
	"conflict":                        {Conflict, ""},
	"conditionNotMet":                 {Conflict, ""},
	"fullSyncRequired":                {Conflict, ""},
	"updatedMinTooLongAgo":            {Conflict, ""},
	"deleted":                         {Gone, ""},
	"backendError":                    {Transient, ""},
	"internalError":                   {Transient, ""},
	"forbiddenForServiceAccounts":     {EventRefused, ""},
	"ACCESS_TOKEN_SCOPE_INSUFFICIENT": {AuthRevoked, ""},
}

func judge(reason string) (verdict, bool) {
	if v, ok := reasons[reason]; ok {
		return v, true
	}
	// dailyLimitExceeded, servingLimitExceeded, concurrentLimitExceeded and their kin are limits of the
	// project. Google has added to them before.
	if strings.HasSuffix(reason, "LimitExceeded") || reason == "limitExceeded" || strings.HasPrefix(reason, "variableTerm") {
		return verdict{Throttled, ScopeProject}, true
	}
	return verdict{}, false
}

// judgeMessage recognises "later" in an answer that carries no reason at all.
func judgeMessage(message string) (verdict, bool) {
	switch {
	case strings.HasPrefix(message, "Quota exceeded for quota metric"), message == "Rate Limit Exceeded":
		return verdict{Throttled, ""}, true
	case message == "User Rate Limit Exceeded":
		return verdict{Throttled, ScopeUser}, true
	case strings.HasPrefix(message, "Calendar usage limits exceeded"):
		return verdict{UsageLimited, ScopeUsage}, true
	}
	return verdict{}, false
}
