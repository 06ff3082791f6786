// Steps that any test of the console may need.

// look opens a page and returns what it says.
export async function look(stage, { path, name }) {
  await stage.go(path);
  if (name) await stage.shot(name);
  return stage.page.locator("body").innerText();
}

// use changes how the following steps see the console: {width, dark, scripts, zone, still}.
export async function use(stage, how) {
  await stage.use(how);
}

// audit returns what axe finds wrong with the page at a path, in light and dark.
export async function audit(stage, { path, name }) {
  return stage.audit(path, name);
}
