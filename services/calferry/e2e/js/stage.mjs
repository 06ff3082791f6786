// A browser with one page open, and what steps do with it again and again.
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const flags = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
// Far longer than anything here takes on a busy machine.
const patience = 60_000;
const desktop = { width: 1280, height: 900 };
const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

export class Stage {
  static async open({ chromium: executablePath, base, artifacts }) {
    const browser = await chromium.launch({ executablePath, args: flags, timeout: patience });
    const stage = new Stage(browser, base, artifacts);
    await stage.use({});
    return stage;
  }

  constructor(browser, base, artifacts) {
    Object.assign(this, { browser, base, artifacts, faults: [], foreign: [], guests: [] });
  }

  // use opens a new context and page in place of the last one: another width, colour scheme, zone, or no scripts.
  async use({ width, dark, scripts = true, zone, still }) {
    await this.context?.close();
    this.context = await this.#context({ width, dark, scripts, zone, still });
    this.page = await this.context.newPage();
  }

  async #context({ width, dark, scripts, zone, still, init }) {
    const context = await this.browser.newContext({
      baseURL: this.base,
      viewport: { ...desktop, width: width ?? desktop.width },
      colorScheme: dark ? "dark" : "light",
      javaScriptEnabled: scripts,
      timezoneId: zone,
      reducedMotion: still ? "reduce" : "no-preference",
    });
    context.setDefaultTimeout(patience);
    context.on("weberror", (error) => this.faults.push(`thrown: ${error.error()}`));
    context.on("console", (message) => {
      if (/Content Security Policy/.test(message.text())) this.faults.push(message.text());
    });
    context.on("request", (request) => {
      const to = new URL(request.url());
      const ours = [new URL(this.base).origin, ...this.guests].includes(to.origin);
      if (!ours && to.protocol.startsWith("http")) this.foreign.push(request.url());
    });
    if (init) await context.addInitScript({ content: init });
    return context;
  }

  // allow lets pages lead to other servers, as Google's consent does.
  allow(...origins) {
    this.guests.push(...origins.map((origin) => new URL(origin).origin));
  }

  async go(path) {
    await this.page.goto(this.base + path);
  }

  // complain throws what pages did wrong since the last call.
  complain() {
    const wrong = [...this.faults, ...this.foreign.map((url) => `asked elsewhere: ${url}`)];
    this.faults = [];
    this.foreign = [];
    if (wrong.length > 0) throw new Error(wrong.join("\n"));
  }

  // describe is what the page shows, for the message of a step that failed.
  async describe() {
    try {
      return `${this.page.url()}\n${await this.page.locator("body").innerText({ timeout: 2000 })}`;
    } catch (error) {
      return `${this.page.url()} cannot be read: ${error.message}`;
    }
  }

  // shot keeps a picture of the whole page, when somebody wants pictures.
  async shot(name, page = this.page) {
    if (!this.artifacts) return;
    await mkdir(this.artifacts, { recursive: true });
    await page.screenshot({ path: join(this.artifacts, `${name}.png`), fullPage: true });
  }

  // overflow is by how many pixels the page is wider than the screen.
  async overflow() {
    return this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  }

  // audit opens a path and returns what axe finds wrong: everything in light, and the colours again in dark.
  async audit(path, name) {
    this.auditor ??= await this.#context({ still: true, init: await readFile(axe, "utf8") });
    const page = await this.auditor.newPage();
    try {
      await page.goto(this.base + path);
      const found = [];
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        const only = colorScheme === "dark" ? { runOnly: ["color-contrast"] } : {};
        const { violations } = await page.evaluate(
          (options) => globalThis.axe.run(document, options), { resultTypes: ["violations"], ...only },
        );
        for (const v of violations) {
          const where = v.nodes.map((n) => `${n.target.join(" ")} (${n.failureSummary})`).join("; ");
          found.push(`${path} ${colorScheme}: ${v.id}: ${v.help}: ${where}`);
        }
        if (name) await this.shot(`${name}-${slug(path)}-${colorScheme}`, page);
      }
      return found;
    } finally {
      await page.close();
    }
  }

  async close() {
    await this.browser.close();
  }
}

function slug(path) {
  return path.replace(/[?=&/]+/g, "-").replace(/^-|-$/g, "") || "overview";
}
