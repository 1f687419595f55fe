/* Live fragments: htmx polls elements marked [data-live]; this keeps them calm.

No polling while the tab is hidden; a filter is not undone by a poll that was sent before it was shown; a banner while
the server does not answer; open menus, dialogs, details and the field being typed in survive a morph; the log's tail
stays at the end unless the reader scrolled up. */
import { announce, toast } from "./toasts.js";

const KEPT_OPEN = new Set(["DETAILS", "DIALOG"]);
const OF_POPOVERS = new Set(["popover", "style"]);

let moment = 0;
const sent = new WeakMap(); // by request
const asked = new Map(); // by a fragment's id: when it last showed what the reader had asked for

function keepReaderState() {
  if (!window.Idiomorph) return;
  const callbacks = window.Idiomorph.defaults.callbacks;
  callbacks.beforeAttributeUpdated = (name, node) =>
    !(name === "open" && KEPT_OPEN.has(node.nodeName)) &&
    !(node.matches?.(".menu-panel[popover]") && OF_POPOVERS.has(name));
  // What the reader unfolded and htmx loaded into it stays, although the server sends it folded and empty.
  callbacks.beforeNodeMorphed = (node) => !(node.nodeType === 1 && node.matches("[data-kept][open]"));
}

/* Only of a field: of anything else that has the focus, a button or a chart, nothing inside would ever change. */
function keepTypedValue() {
  if (!window.Idiomorph) return;
  window.Idiomorph.defaults.ignoreActiveValue = Boolean(document.activeElement?.matches("input, textarea, select"));
}

function atEnd(log) {
  return log.scrollHeight - log.scrollTop - log.clientHeight < 40;
}

function scrollTails() {
  for (const log of document.querySelectorAll("[data-tail='on']")) log.scrollTop = log.scrollHeight;
}

function wentToSignIn(xhr) {
  return new URL(xhr.responseURL || location.href).pathname.startsWith("/login/");
}

function onBeforeRequest(event) {
  const { elt, requestConfig, xhr } = event.detail;
  sent.set(xhr, (moment += 1));
  const polled = elt.matches("[data-live]") && !requestConfig.triggeringEvent;
  if (polled && document.hidden) event.preventDefault();
}

/* Of a fragment that has shown something else meanwhile: a filter's rows, another page. */
function outdated({ xhr, target, requestConfig }) {
  if (!target.matches("[data-live]")) return false;
  if (requestConfig.elt === target) return sent.get(xhr) < asked.get(target.id);
  asked.set(target.id, (moment += 1));
  return false;
}

function onBeforeSwap(event) {
  keepTypedValue();
  const { xhr, elt } = event.detail;
  if (outdated(event.detail)) event.detail.shouldSwap = false;
  if (wentToSignIn(xhr)) {
    event.detail.shouldSwap = false;
    location.reload();
  }
  const log = elt.closest("[data-tail]");
  if (log) log.dataset.tail = atEnd(log) ? "on" : "off";
}

function onFailure(event) {
  if (event.detail.elt.matches("[data-live]")) document.body.dataset.offline = "";
  else toast("The server did not answer. Nothing was changed; try again.", "error");
}

function onError(event) {
  const { xhr, elt } = event.detail;
  if (elt.matches("[data-live]")) document.body.dataset.offline = "";
  else toast(`The server answered with an error (${xhr.status}). Reload the page and try again.`, "error");
}

function onServerMessage(event) {
  toast(event.detail.text, event.detail.level);
  announce(event.detail.text);
}

export function setUpLive() {
  keepReaderState();
  document.addEventListener("htmx:beforeRequest", onBeforeRequest);
  document.addEventListener("htmx:beforeSwap", onBeforeSwap);
  document.addEventListener("htmx:sendError", onFailure);
  document.addEventListener("htmx:responseError", onError);
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful) delete document.body.dataset.offline;
  });
  document.addEventListener("htmx:afterSettle", scrollTails);
  document.addEventListener("tidemark:message", onServerMessage);
  scrollTails();
}
