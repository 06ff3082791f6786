/*
*=========================================
*               SETTINGS
*=========================================
*/
var sourceCalendars = [                // The ics/ical urls that you want to get events from
  ["https://school.example/SECRETPATHTOKEN0123456789/term.ics", "School"],
  // ["https://old.example/gone.ics", "Gone"],
  ["https://club.example/all.ics?key=SECRETQUERY", "Sports", "7"],
  ['webcal://league.example/fix\'tures.ics', "Sports", 3],
];

var howFrequent = 15;                     // What interval (minutes) to run this script on to check for new events
var onlyFutureEvents = false;
var addEventsToCalendar = true;
var modifyExistingEvents = true;
var removeEventsFromCalendar = true;
var removePastEventsFromCalendar = true;
var addAlerts = "no";                     // "yes", "no" or "default"
var addOrganizerToTitle = false;
var descriptionAsTitles = false;
var addCalToTitle = false;
var addAttendees = true;
var defaultAllDayReminder = -1;
var overrideVisibility = "private";
var addTasks = false;

var emailSummary = true;
var email = "";

var filters = [
  { parameter: "summary", type: "exclude", comparison: "begins with", criterias: ["Exam", "Test (oral)"] },
  { "parameter": "categories", "type": "include", "comparison": "contains", "criterias": ["fixture"] },
  { parameter: "dtstart", type: "include", comparison: ">", criterias: ["now"], offset: -7 },
];

/* Below: the program */
var defaultMaxRetries = 10;
function startSync() {
  var notASetting = "SECRETCLIENT";
}
