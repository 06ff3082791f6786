// Steps of connecting Google accounts, on the console and on the simulated Google's consent page.

// allow lets pages lead to the simulated Google.
export async function allow(stage, { google }) {
  stage.allow(google);
}

// follow opens a page, if one is given, and follows links by their names, one after another. It returns what the last page says.
export async function follow(stage, { path, within, links, name }) {
  if (path) await stage.go(path);
  for (const link of links) {
    const where = within ? stage.page.locator(within) : stage.page;
    await where.getByRole("link", { name: link, exact: true }).click();
    await stage.page.waitForLoadState();
  }
  return said(stage, name);
}

// consent decides on Google's page: as whom, what is left out, and whether at all. It returns what the next page says.
export async function consent(stage, { account, untick = [], cancel, name }) {
  const { page } = stage;
  await page.getByLabel(account, { exact: true }).check();
  for (const box of untick) await page.getByLabel(box).uncheck();
  if (name) await stage.shot(`${name}-consent`);
  await page.getByRole("button", { name: cancel ? "Cancel" : "Continue" }).click();
  await page.waitForURL((url) => url.origin === new URL(stage.base).origin);
  return said(stage, name);
}

// create fills in the form for a new calendar. It returns where that leads, and what the page says.
export async function create(stage, { calendar, zone, name }) {
  await stage.page.getByLabel("Name", { exact: true }).fill(calendar);
  await stage.page.getByLabel("Time zone").fill(zone);
  await stage.page.getByRole("button", { name: "Create the calendar" }).click();
  await stage.page.waitForURL("**/subscriptions/new?**");
  return { ...(await chosen(stage)), text: await said(stage, name) };
}

// chosen is the account and the calendar that the form for a new feed has filled in.
export async function chosen(stage) {
  return {
    account: await stage.page.locator("[name=account]").first().inputValue(),
    calendar: await stage.page.locator("[name=calendar]").inputValue(),
  };
}

async function said(stage, name) {
  if (name) await stage.shot(name);
  if ((await stage.overflow()) > 0) throw new Error(`${stage.page.url()} is wider than the screen`);
  return (await stage.page.locator("body").innerText()).replace(/\s+/g, " ");
}
