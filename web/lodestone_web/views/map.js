// A map of the world with a picture's place: an outline that comes with the page, so nothing is asked of other sites.
import { html, signal, useEffect } from "../html.js";
import { getJson } from "../engine/http.js";

const OUTLINE = "web/files/assets/land-110m.json";
const NORTH = 84; // beyond are no places to speak of; south of -58 is Antarctica, which is shown only for its own pictures
const SOUTH = -58;

const land = signal(""); // path of the outline, in degrees east of 180° west and south of the north pole
let asked = false;

export function WorldMap({ latitude, longitude }) {
  useEffect(() => {
    if (asked) return;
    asked = true;
    getJson(OUTLINE).then((topology) => { land.value = outline(topology); }, () => { asked = false; });
  }, []);
  const [top, bottom] = [Math.max(NORTH, latitude), latitude < SOUTH ? -90 : SOUTH];
  const [x, y] = [longitude + 180, 90 - latitude];
  const place = placeText(latitude, longitude);
  return html`
    <figure class="map">
      <svg viewBox=${`0 ${90 - top} 360 ${top - bottom}`} role="img" aria-label=${`Map of the world with the place of the picture: ${place}`}>
        <path class="land" d=${land.value} />
        <path class="cross" d=${`M${x} 0V180M0 ${y}H360`} />
        <circle class="ring" cx=${x} cy=${y} r="7" /><circle class="dot" cx=${x} cy=${y} r="3.2" />
      </svg>
      <figcaption>${place}</figcaption>
    </figure>`;
}

/** Return a place as people write it: 48.2082° N, 16.3738° E. */
export function placeText(latitude, longitude) {
  return `${Math.abs(latitude).toFixed(4)}° ${latitude < 0 ? "S" : "N"}, ${Math.abs(longitude).toFixed(4)}° ${longitude < 0 ? "W" : "E"}`;
}

/** Return the path of a TopoJSON topology's land. Its arcs are differences of whole numbers; a negative index means backwards. */
export function outline({ arcs, objects, transform: { scale, translate } }) {
  const lines = arcs.map((arc) => {
    let [x, y] = [0, 0];
    return arc.map(([right, up]) => {
      x += right;
      y += up;
      return [180 + x * scale[0] + translate[0], 90 - y * scale[1] - translate[1]];
    });
  });
  const ring = (indices) => indices.flatMap((index) => (index < 0 ? [...lines[~index]].reverse() : lines[index]));
  const polygons = objects.land.geometries.flatMap((geometry) => (geometry.type === "Polygon" ? [geometry.arcs] : geometry.arcs));
  return polygons.flat().flatMap((indices) => unrolled(ring(indices))).map((points) => `M${points.map(written).join("L")}Z`).join("");
}

/** Return a ring without jumps at 180°, once more on the other side where it goes across. One around the pole is led over it. */
function unrolled(points) {
  let turn = 0;
  const whole = points.map(([x, y], at) => {
    const jump = at ? x - points[at - 1][0] : 0;
    turn -= Math.abs(jump) > 180 ? 360 * Math.sign(jump) : 0;
    return [x + turn, y];
  });
  if (turn) whole.push([whole.at(-1)[0], 180], [whole[0][0], 180]);
  const shifted = (by) => whole.map(([x, y]) => [x + by, y]);
  const xs = whole.map(([x]) => x);
  return [whole, ...(Math.max(...xs) > 360 ? [shifted(-360)] : []), ...(Math.min(...xs) < 0 ? [shifted(360)] : [])];
}

function written([x, y]) {
  return `${x.toFixed(1)} ${y.toFixed(1)}`;
}
