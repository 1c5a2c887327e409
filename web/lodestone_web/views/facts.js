// What is known about one picture: its file, date, camera, captions, tags, and its place on a map.
import { html, useEffect, useState } from "../html.js";
import { getJson } from "../engine/http.js";
import { WorldMap } from "./map.js";
import { Tags } from "./tags.js";

export function Facts({ hit, path }) {
  const [info, setInfo] = useState(null);
  useEffect(() => {
    let gone = false;
    getJson(path).then((told) => { if (!gone) setInfo(told); }, () => undefined);
    return () => { gone = true; };
  }, [path]);
  const rows = [
    ["File", inFolders(`${hit.root}/${hit.uri}`)],
    ["Size", [`${hit.width} × ${hit.height}`, info && bytes(info.size), info?.format].filter(Boolean).join(", ")],
    ["Taken", info?.taken_local && clock(info.taken_local)],
    ["Camera", [info?.camera_make, info?.camera_model].filter(Boolean).join(" ")],
    ["Captions", hit.captions.slice(1).join(" · ")],
  ];
  const placed = typeof info?.latitude === "number" && typeof info?.longitude === "number";
  return html`
    <details open><summary>About this picture</summary>
      <dl>${rows.filter(([, value]) => value).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd dir="auto">${typeof value === "string" ? html`<bdi>${value}</bdi>` : value}</dd></div>`)}</dl>
      <${Tags} hit=${hit} />
      ${placed && html`<${WorldMap} latitude=${info.latitude} longitude=${info.longitude} />`}
      ${hit.missing && html`<p class="note">The file is gone from its folder.</p>`}
    </details>`;
}

/** Return a path whose folders stay in their order, whatever direction the letters of each run in. */
function inFolders(path) {
  return html`<bdi dir="ltr">${path.split("/").flatMap((name, place) => [place ? "/" : "", html`<bdi>${name}</bdi>`])}</bdi>`;
}

function bytes(size) {
  return size < 2 ** 20 ? `${Math.max(1, Math.round(size / 2 ** 10))} kB` : `${(size / 2 ** 20).toFixed(1)} MB`;
}

/** Return what the clock showed where the picture was taken, as precisely as is known, whatever zone it is looked at in. */
function clock(shown) {
  const there = new Date(shown.includes("T") ? `${shown}Z` : shown); // a day, month or year alone is read as UTC
  const precise = { 4: { year: "numeric" }, 7: { year: "numeric", month: "long" }, 10: { dateStyle: "long" } };
  return there.toLocaleString(undefined, { ...precise[shown.length] ?? { dateStyle: "long", timeStyle: "short" }, timeZone: "UTC" });
}
