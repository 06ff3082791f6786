package gcalsim_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// behaviours numbers what the simulator does as Google does it, and names the tests that show it.
var behaviours = []struct {
	number int
	is     string
	shown  []func(*testing.T)
}{
	// Authorisation.
	{1, "no Authorization: 401 required, in the front end's envelope", tests(TestNoTokenMeansLoginRequired)},
	{2, "an unknown or expired token: 401 authError", tests(TestBadTokensAreInvalidCredentials, TestTokenTTLFollowsTheConfiguration)},
	{3, "a token without the method's scope: 403 insufficientPermissions", tests(TestScopesDecideWhatMayBeCalled)},
	{4, "a refresh gives an access token and no refresh token", tests(TestRefreshGivesAnAccessToken)},
	{5, "a refresh token that is revoked: invalid_grant, as JSON", tests(TestRefreshRefusals, TestRevocationAndReconnect)},
	{6, "a wrong client: 401 invalid_client", tests(TestRefreshRefusals)},
	{7, "an outage of the token endpoint: 503, or a page", tests(TestTokenEndpointOutage, TestTheTokenEndpointFailsOnRequest)},
	{8, "a revocation strikes access and refresh tokens", tests(TestRevocationAndReconnect)},
	{9, "a project without the API: 403 accessNotConfigured", tests(TestDisabledAPI)},

	// Calendars.
	{10, "a calendar without a summary: 400 required", tests(TestCalendarNeedsASummary)},
	{11, "a new calendar has id, etag, zone and owner", tests(TestCalendarInsert)},
	{12, "too many new calendars: quotaExceeded, deleted ones too", tests(TestCalendarsPerAccountAreLimitedForGood)},
	{13, "an unknown calendar: 404", tests(TestUnknownCalendarIsNotFound)},
	{14, "a deleted calendar takes its events along", tests(TestDeletedCalendarTakesItsEventsAlong)},
	{15, "the list entry of a calendar tells the role; app.created may not list", tests(TestCalendarInsert, TestScopesDecideWhatMayBeCalled)},
	{16, "a reader's write: 403 requiredAccessLevel; a stranger's: 404", tests(TestRoles)},

	// Insert.
	{17, "an insert fills in what was left out", tests(TestInsertFillsIn)},
	{18, "an id is made up when there is none", tests(TestInsertFillsIn)},
	{19, "an id with other characters or lengths: 400", tests(TestEventIDs)},
	{20, "the id of a live event: 409", tests(TestIDsAreNeverReleased)},
	{21, "the id of a deleted event: 409", tests(TestIDsAreNeverReleased)},
	{22, "of concurrent inserts of one id, one wins", tests(TestConcurrentInsertsOfOneID)},
	{23, "the same id in another calendar is free", tests(TestIDsAreNeverReleased)},
	{24, "a missing start or end: 400", tests(TestBodiesRefused)},
	{25, "a date beside a time: 400", tests(TestBodiesRefused)},
	{26, "an end before the start: 400 timeRangeEmpty", tests(TestBodiesRefused, TestTimeRangeEmptyNamesTheParameter)},
	{27, "a timed event without length: 400 timeRangeEmpty, or not", tests(TestBodiesRefused, TestSwitchesForWhatNobodyKnows)},
	{28, "an all-day event without length: 400 timeRangeEmpty, or not", tests(TestBodiesRefused, TestSwitchesForWhatNobodyKnows)},
	{29, "a time without zone and offset: 400", tests(TestBodiesRefused)},
	{30, "two bad zones: two errors in one answer", tests(TestBothZonesWrongMeansTwoErrors)},
	{31, "a date that does not exist: 400 badRequest", tests(TestBodiesRefused)},
	{32, "malformed JSON: 400 parseError", tests(TestMalformedJSON)},
	{33, "a timed series without a zone: 400", tests(TestBodiesRefused)},
	{34, "a DTSTART line in the recurrence: 400", tests(TestBodiesRefused)},
	{35, "COUNT beside UNTIL: 400", tests(TestBodiesRefused)},
	{36, "a floating UNTIL: 400; a date as UNTIL of a timed series passes", tests(TestBodiesRefused, TestBodiesTaken)},
	{37, "a rule below a day: 500, or 400", tests(TestBodiesRefused, TestSwitchesForWhatNobodyKnows)},
	{38, "rules and dates unite, exception dates are taken away", tests(TestBodiesTaken, TestRuleSets)},
	{39, "long property keys vanish and long values are cut, in silence", tests(TestPropertiesAreCutInSilence)},
	{40, "too many or too large properties: 400, or not", tests(TestPropertiesHaveATotalSize)},
	{41, "too many or too early reminders: 400", tests(TestBodiesRefused)},
	{42, "a source that is not on the web: 400", tests(TestBodiesRefused)},
	{43, "a colour that there is not: 400, or not", tests(TestBodiesRefused, TestSwitchesForWhatNobodyKnows)},
	{44, "unknown and read-only fields are ignored", tests(TestBodiesTaken, TestReadOnlyFieldsAreIgnored)},
	{45, "an unknown sendUpdates: 400 invalidParameter", tests(TestSendUpdatesIsChecked)},
	{46, "defaults are left out, times are shown in the calendar's zone", tests(TestDefaultsAreLeftOut, TestTimesAreShownInTheCalendarsZone)},

	// Update, patch, delete.
	{47, "a PUT replaces", tests(TestPutReplaces)},
	{48, "a PATCH merges maps, replaces arrays, clears by null", tests(TestPatchMerges, TestPatchFromTimedToAllDayNeedsTheNull)},
	{49, "a change moves etag and updated, a new time the sequence", tests(TestChangesMoveEtagUpdatedAndSequence, TestRemindersDoNotCountAsUpdate)},
	{50, "a stale If-Match: 412, and nothing changes", tests(TestStaleIfMatch, TestIfMatchOnAnUntouchedInstanceIsTheSeriesEtag)},
	{51, "a sequence that goes back: 400", tests(TestSequenceCannotGoBack)},
	{52, "a PUT of an unknown id: 404", tests(TestPutReplaces)},
	{53, "a deleted event is cancelled, with its details", tests(TestDeleteLeavesATombstone)},
	{54, "a second delete: 410", tests(TestDeleteLeavesATombstone)},
	{55, "a write without status to a deleted event: 403 forbidden, or not", tests(TestUndeleteNeedsTheStatus)},
	{56, "a write with the status brings it back", tests(TestUndeleteNeedsTheStatus)},
	{57, "a purged tombstone is not found, and keeps its id", tests(TestPurgedTombstonesKeepTheirID)},
	{58, "a patch to cancelled deletes", tests(TestPatchToCancelledDeletes)},

	// Recurrence.
	{59, "instances have ids by original start, and keep their hour", tests(TestInstancesKeepTheirHourOverDaylightSaving, TestAllDayInstances)},
	{60, "writing an instance makes an exception", tests(TestWritingAnInstanceMakesAnException)},
	{61, "deleting an instance leaves a bare exception", tests(TestDeletingAnInstanceLeavesABareException)},
	{62, "an instance that the rule does not have: 404", tests(TestInstancesThatDoNotExist)},
	{63, "exceptions outlive a change of the series' text", tests(TestExceptionsOutliveChangesOfTheSeries)},
	{64, "exceptions outlive the end of their series", tests(TestExceptionsOutliveChangesOfTheSeries)},
	{65, "exceptions outlive a new schedule, or not", tests(TestExceptionsOutliveChangesOfTheSeries, TestExceptionsCanBeResetBySwitch)},
	{66, "deleting the series deletes all", tests(TestDeletingTheSeriesDeletesAll)},
	{67, "the instances of an instance are itself", tests(TestInstancesOfAnInstance)},
	{68, "an exception date takes its instance; a stray one is ignored, or 400", tests(TestRuleSets, TestSwitchesForWhatNobodyKnows)},

	// Lists.
	{69, "pages have 250 rows, at most 2,500, and may be empty", tests(TestPageSizes, TestFirstPageCanBeEmpty, TestEndlessSeriesArePaged)},
	{70, "only the last page has a sync token", tests(TestPageSizes, TestPagesStayStableWhileEventsCome)},
	{71, "a sync token tells what changed, and takes no filters", tests(TestSyncTokenTellsWhatChanged)},
	{72, "old sync tokens and old updatedMin: 410", tests(TestTokensGoStale)},
	{73, "windows exclude their bounds; an empty one: 400", tests(TestWindows)},
	{74, "orderBy=startTime without singleEvents: 400", tests(TestOrders)},
	{75, "repeated property filters are AND, or OR", tests(TestPropertyFilters)},
	{76, "deleted events show on request", tests(TestTombstonesInListings)},
	{77, "an empty list has items, or none", tests(TestEmptyLists)},
	{78, "a list by iCalUID has the series and its exceptions", tests(TestSearches)},
	{79, "fields cuts the answer", tests(TestFieldsMask)},

	// Throttles and faults.
	{80, "a burst over the calendar's limit: 403 rateLimitExceeded, reads pass", tests(TestBucketRefusesTheBurst, TestEveryKindOfWriteCountsOnce, TestWindowsOfACalendar)},
	{81, "a penalty closes one calendar", tests(TestPenaltyClosesOneCalendar, TestNoiseIsRepeatable)},
	{82, "units per user and minute: 403, a patch costs three", tests(TestUnitsPerUserAndMinute)},
	{83, "units per project and minute: 429", tests(TestUnitsPerProjectAndMinute)},
	{84, "too many creates: quotaExceeded, other writes pass", tests(TestCreatesPerAccount)},
	{85, "Retry-After comes on request only", tests(TestBucketRefusesTheBurst, TestRetryAfterWhenAsked)},
	{86, "a 500 before the write is kept", tests(TestFaultsBeforeTheWrite)},
	{87, "a 500 or a reset after it", tests(TestFaultsAfterTheWriteLeaveItInPlace, TestAnAfterRuleWaitsForASuccess)},
	{88, "a 503 page", tests(TestFaultsBeforeTheWrite, TestFaultsAfterTheWriteLeaveItInPlace)},
	{89, "half of an answer after the write is kept", tests(TestFaultsAfterTheWriteLeaveItInPlace)},
	{90, "no answer until the client gives up", tests(TestHangOutlastsTheClient)},
	{91, "a 404 once, then as usual", tests(TestNotFoundOnceAsReplicationLag)},
	{92, "a 403 page without a reason", tests(TestFaultsBeforeTheWrite)},

	// Import.
	{93, "an import without iCalUID: 400", tests(TestImport)},
	{94, "an import of a known iCalUID updates, or 409", tests(TestImport)},
	{95, "an insert with a known iCalUID: 409", tests(TestImport)},
}

func tests(shown ...func(*testing.T)) []func(*testing.T) { return shown }

func TestBehavioursAreNumberedWithoutAGap(t *testing.T) {
	t.Parallel()
	require.Len(t, behaviours, 95)
	for i, b := range behaviours {
		require.Equal(t, i+1, b.number, b.is)
		require.NotEmpty(t, b.is)
		require.NotEmpty(t, b.shown, b.is)
	}
}
