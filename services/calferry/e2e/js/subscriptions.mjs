// What people do with subscriptions.

// begin fills in the form for a new feed, looks at the preview, and starts. It returns what the preview said and the
// address that starting led to.
export async function begin(stage, { feed, calendar, name }) {
  const { page } = stage;
  await stage.go("/");
  await page.getByRole("banner").getByRole("link", { name: "Add a feed" }).click();
  await page.getByLabel("Address of the feed").fill(feed);
  const choice = page.getByLabel("Google calendar", { exact: true });
  if (await choice.evaluate((e) => e.tagName) === "SELECT") await choice.selectOption(calendar);
  else await choice.fill(calendar);
  await page.getByLabel("Name of the subscription (optional)").fill(name);
  await stage.shot("add-form");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("heading", { name: "What would be written" }).waitFor();
  await stage.shot("add-preview");
  const preview = await page.locator("main").innerText();
  await page.getByRole("button", { name: "Start" }).click();
  await page.waitForURL(/\/subscriptions\/[^/?]+\?/);
  return { preview, path: new URL(page.url()).pathname };
}

// refuse fills in an address that cannot be used and returns what the form says about it.
export async function refuse(stage, { feed }) {
  const { page } = stage;
  await stage.go("/subscriptions/new");
  await page.getByLabel("Address of the feed").fill(feed);
  await page.getByRole("button", { name: "Preview" }).click();
  return page.getByRole("alert").innerText();
}

// counts watches the subscription that is open, without asking anything of it, until its sentence has shown as many waits
// and as many numbers of written events as are wanted, and these words. It returns all that it has shown since it was
// first called, and marks the page: one that was loaded anew has lost the mark.
export async function counts(stage, { waits, steps, words }) {
  const { page } = stage;
  await page.evaluate(() => {
    if (window.said) return;
    window.marker = "the same page";
    window.said = new Set();
    const note = () => window.said.add(document.querySelector("#now .sentence")?.innerText);
    new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
    note();
  });
  await page.waitForFunction(([waits, steps, words]) => {
    const all = [...window.said].join("\n");
    const seen = (pattern) => new Set([...all.matchAll(pattern)].map((m) => m[1])).size;
    return seen(/resumes in about (\d+) s/g) >= waits && seen(/^(\d+) written, /gm) >= steps && all.includes(words);
  }, [waits, steps, words]);
  await stage.shot("subscription-counting");
  return page.evaluate(() => [...window.said]);
}

// becomes waits until the page that is open, and was not loaded anew, shows a state.
export async function becomes(stage, { state, name }) {
  const { page } = stage;
  await page.locator("#title .state", { hasText: state }).waitFor();
  if (name) await stage.shot(name);
  return { text: await page.locator("main").innerText(), marker: await page.evaluate(() => window.marker ?? "") };
}

// decide opens a subscription, waits until it holds so many deletions, as its heading says, and chooses what becomes of
// them.
export async function decide(stage, { path, heading, button, except }) {
  const { page } = stage;
  await stage.go(path);
  await page.getByRole("heading", { name: heading }).waitFor();
  await stage.shot(`holds-${button.split(" ")[0].toLowerCase()}`);
  const before = await page.locator("#held").innerText();
  if (except) await page.getByLabel(except).uncheck();
  await page.getByRole("button", { name: button }).click();
  const notice = await page.locator(".notice").innerText();
  return { before, notice };
}

// refused opens a subscription, waits until it lists a refused event, and returns what it says of it.
export async function refused(stage, { path }) {
  const { page } = stage;
  await stage.go(path);
  await page.getByRole("heading", { name: /refused by Google/ }).waitFor();
  await stage.shot("quarantine");
  return page.locator("#refused").innerText();
}

// retry presses the button beside the refused events and waits until none is listed.
export async function retry(stage) {
  const { page } = stage;
  await page.locator("#refused").getByRole("button", { name: "Try again" }).click();
  await page.locator("#refused").getByRole("heading").waitFor({ state: "detached" });
  await page.locator("#title .state", { hasText: "In step" }).waitFor();
}

// bulk finds subscriptions and does something to all of them, and returns what was asked before it was done.
export async function bulk(stage, { query, action }) {
  const { page } = stage;
  await stage.go("/");
  await page.getByRole("searchbox").fill(query);
  await page.getByRole("button", { name: "Find" }).click();
  await page.getByRole("link", { name: action }).click();
  const asked = await page.locator("main").innerText();
  await stage.shot(`bulk-${action.toLowerCase().replace(" ", "-")}`);
  await page.getByRole("button", { name: action }).click();
  await page.locator(".notice").waitFor();
  return { asked, after: await page.locator("main").innerText() };
}

// edit changes a prefix, looks at what that would do, and saves it.
export async function edit(stage, { path, prefix }) {
  const { page } = stage;
  await stage.go(`${path}/edit`);
  await page.getByLabel("Put before every title").fill(prefix);
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByText("Nothing is saved yet").waitFor();
  const preview = await page.locator("main").innerText();
  await stage.shot("edit-preview");
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".notice").waitFor();
  return preview;
}

// narrow returns, for each path, by how much the page is wider than the screen.
export async function narrow(stage, { paths }) {
  const wide = {};
  for (const path of paths) {
    await stage.go(path);
    wide[path] = await stage.overflow();
    await stage.shot(`narrow${path.replace(/[?=&/]+/g, "-")}`);
  }
  return wide;
}

// keys walks through a page by the keyboard alone and returns the names of what it stops at.
export async function keys(stage, { path, stops }) {
  const { page } = stage;
  await stage.go(path);
  const names = [];
  for (let i = 0; i < stops; i++) {
    await page.keyboard.press("Tab");
    names.push(await page.evaluate(() => {
      const at = document.activeElement;
      const outlined = getComputedStyle(at).outlineStyle !== "none";
      return `${at.innerText || at.value || at.id}${outlined ? "" : " (unseen)"}`;
    }));
  }
  return names;
}
