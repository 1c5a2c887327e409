// What is known about one picture: its file, date, camera, place, captions and tags.
import { html, useEffect, useState } from "../html.js";
import { getJson } from "../engine/http.js";
import { WorldMap } from "./map.js";
import { cameraName, clockOf } from "./shown.js";
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
    ["Incomplete", typeof info?.decoded_share === "number" && `The file ends early: ${Math.floor(100 * info.decoded_share)} % could be shown`],
    ["Taken", info && clockOf(info)],
    ["Camera", cameraName(info?.camera_make, info?.camera_model)],
    ["Place", info?.place],
    ["Found by", hit.found_by?.join(", ")],
    ["More captions", hit.captions.slice(1).join(" · ")],
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
