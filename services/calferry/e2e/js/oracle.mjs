// A second reader of feeds and rules, to compare Calferry's own with: ical.js.
//
//   node oracle.mjs events FILE...   the events of each feed, as JSON on stdout
//   node oracle.mjs rules < RULES    the dates of each of [{start, rule, limit}], as a line of JSON on stdout each
import { readFileSync, writeSync } from 'node:fs'
import ICAL from 'ical.js'

const [, , what, ...files] = process.argv
const print = (value) => process.stdout.write(JSON.stringify(value))

// offset is that of a zone at a moment, by the data that node brings along, in milliseconds.
function offset(zone, at) {
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric',
  }).formatToParts(at)
  const n = Object.fromEntries(parts.map((part) => [part.type, Number(part.value)]))
  return Date.UTC(n.year, n.month - 1, n.day, n.hour, n.minute, n.second) - at
}

// start is a date, a wall clock without a zone, or a moment in UTC.
function start(property, zones) {
  const time = property.getFirstValue()
  const wall = [time.year, time.month, time.day].map((n, i) => String(n).padStart(i ? 2 : 4, '0')).join('-')
  if (time.isDate) return wall
  const clock = Date.UTC(time.year, time.month - 1, time.day, time.hour, time.minute, time.second)
  const text = (ms) => new Date(ms).toISOString().slice(0, 19)
  const name = property.getParameter('tzid')
  if (time.zone === ICAL.Timezone.utcTimezone) return text(clock) + 'Z'
  if (!name) return text(clock)
  if (zones.has(name)) {
    const moment = time.clone()
    moment.zone = zones.get(name)
    return text(moment.toUnixTime() * 1000) + 'Z'
  }
  const first = clock - offset(name, clock)
  return text(clock - offset(name, first)) + 'Z'
}

// eventsOf are all events of a feed.
function eventsOf(file) {
  const parsed = ICAL.parse(readFileSync(file, 'utf8'))
  const calendars = (Array.isArray(parsed[0]) ? parsed : [parsed]).map((one) => new ICAL.Component(one))
  return calendars.flatMap((calendar) => {
    const zones = new Map(calendar.getAllSubcomponents('vtimezone').map((zone) => [zone.getFirstPropertyValue('tzid'), new ICAL.Timezone(zone)]))
    return calendar.getAllSubcomponents('vevent').map((event) => ({
      uid: event.getFirstPropertyValue('uid'),
      summary: event.getFirstPropertyValue('summary') ?? '',
      status: event.getFirstPropertyValue('status') ?? '',
      changes: event.hasProperty('recurrence-id'),
      start: start(event.getFirstProperty('dtstart'), zones),
    }))
  })
}

if (what === 'events') {
  print(files.map(eventsOf))
} else if (what === 'rules') {
  for (const { start, rule, limit } of JSON.parse(readFileSync(0, 'utf8'))) {
    const dates = []
    let error = ''
    try {
      const iterator = ICAL.Recur.fromString(rule).iterator(ICAL.Time.fromString(start))
      for (let next = iterator.next(); next && dates.length < limit; next = iterator.next()) dates.push(next.toString())
    } catch (problem) {
      error = String(problem)
    }
    // At once: some rules make ical.js run for ever, and then it matters which one.
    writeSync(1, JSON.stringify({ dates, error }) + '\n')
  }
} else {
  console.error('usage: node oracle.mjs events FILE... | rules')
  process.exit(2)
}
