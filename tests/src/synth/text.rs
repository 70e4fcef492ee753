//! A little English, for training tiny vocabularies and for prompts.

/// Written for this purpose; about 250 words.
pub const SAMPLE: &str = "\
The morning train was late again, and the people on the platform talked about the weather. A woman with a \
red umbrella asked the guard when the next train would come. He looked at the clock, then at the sky, and \
said that it would come when the rain had stopped. The woman laughed. In the house on the hill an old man \
wrote a letter to his daughter. He told her about the garden, the apples on the tree, the cat that slept \
in the sun, and the book that he had read for the third time. He asked her when she would come home. There \
was a river below the house, and on the river there was a small boat with a white sail. The boat belonged \
to a man who had been a teacher in the city. Every day he went out on the water and thought about numbers. \
He liked the number seven, because it was hard to divide, and the number twelve, because it was easy. When \
the wind came from the west he went home, made tea, and wrote down what he had found. The people of the \
village said that he was a strange man, but they brought him bread and cheese, and he taught their \
children to count. One day the children asked him how many drops of water there are in the river. He said \
that nobody knows, and that this is the reason to go on counting.";
